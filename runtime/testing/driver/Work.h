// What streams are given: operations to run, marks to set and marks to wait for.
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

/// A point in a stream's work: what an event was recorded at. The machine's lock guards it.
struct Mark {
  Clock clock; ///< what comes before it
  bool reached = false;
  std::chrono::steady_clock::time_point time; ///< when it was reached
  std::condition_variable changed;
};

/// Something that runs on a stream; as often as it is launched, where it is part of a graph.
struct Operation {
  const char *kind = "";        ///< "kernel", "copy", ...
  std::string name;             ///< for reports and the log
  std::vector<Access> accesses; ///< what it touches
  std::function<CUresult()> run;
};
using OperationRef = std::shared_ptr<const Operation>;

/// An entry of a stream's queue: one of the three is set.
struct Work {
  OperationRef operation;
  std::shared_ptr<Mark> record, wait;
  Clock clock; ///< what comes before what follows the operation
};

} // namespace psrt::fake

#endif
