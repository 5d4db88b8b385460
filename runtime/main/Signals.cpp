// Handlers: they touch nothing but atomics, and write(2).
#include "runtime/main/Signals.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace psrt {
namespace {

std::atomic<bool> stopRequested{false}, isFirstAnswered{false};
std::atomic<int> interrupts{0}; ///< SIGTERM and SIGINT that have come

void say(std::string_view line) { (void)!write(STDERR_FILENO, line.data(), line.size()); }

/// Ends the process as the signal does by itself; where that is not possible (the first process of
/// a container), with the status that a shell gives it.
void endAtOnce(int number) {
  say("error: ended by a second signal; nothing more is saved\n");
  std::signal(number, SIG_DFL);
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, number);
  pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  std::raise(number);
  _exit(128 + number);
}

void requestStop(int number) {
  int kept = errno;
  bool isInterrupt = number == SIGTERM || number == SIGINT;
  if (isInterrupt && interrupts.fetch_add(1) > 0)
    endAtOnce(number);
  stopRequested = true;
  if (!isFirstAnswered.exchange(true))
    say("note: asked to stop: the step in progress ends, then the run; a second SIGTERM or SIGINT "
        "ends it at once\n");
  errno = kept;
}

} // namespace

void startSignalThread() {
  try {
    std::thread([] {
      while (true)
        pause();
    }).detach();
  } catch (const std::system_error &) { // signals wait for the end of a step then
  }
}

void listenForStop(bool prints) {
  isFirstAnswered = !prints;
  for (int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      continue;
    action = {};
    action.sa_handler = requestStop;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
  }
}

bool isStopRequested() { return stopRequested; }

} // namespace psrt
