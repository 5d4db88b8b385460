// Handles the signals that stop a run. Handlers use only atomics and async-signal-safe functions.
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
std::atomic<int> interrupts{0}; ///< number of SIGTERM and SIGINT received

/// Writes a line to stderr; safe in a signal handler.
void say(std::string_view line) { (void)!write(STDERR_FILENO, line.data(), line.size()); }

/// Ends the process by the default action of the signal. In process 1 of a container, the default
/// action has no effect, and the process exits with 128 + number.
void endAtOnce(int number) {
  say("error: stopped by a second signal; nothing more is saved\n");
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
    say("note: stopping after the step in progress; a second SIGTERM or SIGINT stops the run at "
        "once\n");
  errno = kept;
}

} // namespace

void startSignalThread() {
  try {
    std::thread([] {
      while (true)
        pause();
    }).detach();
  } catch (const std::system_error
               &) { // ignored: without the thread, a signal is handled after the step
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
