// Defines the work of streams: operations, and marks to set and to wait for.
#ifndef PSRT_TESTING_DRIVER_WORK_H
#define PSRT_TESTING_DRIVER_WORK_H

#include "runtime/testing/driver/Codes.h"
#include "runtime/testing/driver/Order.h"
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace psrt::fake {

/// A point in a stream's work at which an event was recorded. Guarded by the machine's lock.
struct Mark {
  Clock clock; ///< happens before the mark
  bool reached = false;
  std::chrono::steady_clock::time_point time; ///< when the mark was reached
  std::condition_variable changed;
};

/// An operation of a stream. In a graph, it runs once per launch.
struct Operation {
  const char *kind = "";        ///< "kernel", "copy", ...
  std::string name;             ///< for reports and the log
  std::vector<Access> accesses; ///< memory that the operation accesses
  std::function<CUresult()> run;
};
using OperationRef = std::shared_ptr<const Operation>;

/// An entry of a stream's queue; exactly one of the three pointers is set.
struct Work {
  OperationRef operation;
  std::shared_ptr<Mark> record, wait;
  Clock clock; ///< the stream's clock, including the operation
};

} // namespace psrt::fake

#endif
