// Shows on a terminal what a long compile does.
#ifndef PARASHARD_TOOLS_PS_COMPILE_PROGRESS_H
#define PARASHARD_TOOLS_PS_COMPILE_PROGRESS_H

#include "llvm/ADT/StringRef.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace parashard {

/// Prints "ps-compile: 5 s, ps-schedule" in place, each second from the second one on, and clears
/// the line at its end. Prints nothing where stderr is not a terminal.
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
  std::thread thread; ///< not started where nothing is printed
};

} // namespace parashard

#endif
