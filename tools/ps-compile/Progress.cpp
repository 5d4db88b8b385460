// Prints the progress line from its own thread, since a single pass may take many seconds.
#include "Progress.h"
#include <cstdio>
#include <unistd.h>

namespace parashard {

constexpr const char *kClearLine = "\x1b[K\r";

Progress::Progress() {
  if (isatty(STDERR_FILENO))
    thread = std::thread([this] { run(); });
}

Progress::~Progress() {
  {
    std::lock_guard lock(mutex);
    isOver = true;
  }
  ends.notify_all();
  if (thread.joinable())
    thread.join();
  if (hasLine)
    std::fputs(kClearLine, stderr);
}

void Progress::enter(llvm::StringRef newStep) {
  std::lock_guard lock(mutex);
  step = newStep.str();
}

void Progress::run() {
  using namespace std::chrono_literals;
  std::unique_lock lock(mutex);
  for (auto next = begin + 2s; !ends.wait_until(lock, next, [this] { return isOver; });
       next += 1s) {
    print();
    hasLine = true;
  }
}

/// Leaves the cursor at the beginning of the line, so that a diagnostic overwrites the line.
void Progress::print() const {
  auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
  std::fprintf(stderr, "\rps-compile: %lld s, %s%s", (long long)seconds.count(), step.c_str(),
               kClearLine);
}

} // namespace parashard
