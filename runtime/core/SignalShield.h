// Keeps signal handlers away from threads that compute.
#ifndef PSRT_CORE_SIGNALSHIELD_H
#define PSRT_CORE_SIGNALSHIELD_H

#include <csignal>

namespace psrt {

/// While it lives, the calling thread takes no signals, and neither do threads that it starts for
/// as long as they live. Signals that say what the thread itself did (SIGSEGV, SIGBUS, ...) still
/// come. The matmuls that oneDNN generates for AVX-512 use the stack pointer as an ordinary
/// register, which then points into the heap: there the kernel would write the frame of a handler.
class SignalShield {
public:
  SignalShield();
  ~SignalShield();
  SignalShield(const SignalShield &) = delete;
  SignalShield &operator=(const SignalShield &) = delete;

private:
  sigset_t before;
};

} // namespace psrt

#endif
