// Sets the signal masks of threads.
#include "runtime/core/SignalShield.h"
#include <initializer_list>

namespace psrt {

SignalShield::SignalShield() {
  sigset_t all;
  sigfillset(&all);
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    sigdelset(&all, number);
  pthread_sigmask(SIG_BLOCK, &all, &before);
}

SignalShield::~SignalShield() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

} // namespace psrt
