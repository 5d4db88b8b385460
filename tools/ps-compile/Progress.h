// Shows on a terminal which pass of a long compile runs.
#ifndef PARASHARD_TOOLS_PS_COMPILE_PROGRESS_H
#define PARASHARD_TOOLS_PS_COMPILE_PROGRESS_H

#include "llvm/ADT/StringRef.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace parashard {

/// Prints a line such as "ps-compile: 5 s, ps-schedule" and rewrites it every second, after the
/// first two seconds. Clears the line at the end. Prints nothing if stderr is not a terminal.
class Progress {
public:
  Progress();
  ~Progress();
  Progress(const Progress &) = delete;
  /// Names the step that begins.
  void enter(llvm::StringRef step);

private:
  void run();
  void print() const;

  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::condition_variable ends;
  bool isOver = false;
  bool hasLine = false;
  std::string step;
  std::thread thread; ///< not started if stderr is not a terminal
};

} // namespace parashard

#endif
