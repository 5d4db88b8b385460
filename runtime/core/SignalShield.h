// Keeps signal handlers away from compute threads.
#ifndef PSRT_CORE_SIGNALSHIELD_H
#define PSRT_CORE_SIGNALSHIELD_H

#include <csignal>

namespace psrt {

/// Blocks signals of the calling thread during the object's lifetime, and of the threads that it
/// starts for their whole lives. Signals that the thread itself causes (SIGSEGV, SIGBUS, ...) still
/// arrive. Reason: oneDNN's AVX-512 matmuls use the stack pointer as an ordinary register, which
/// may point into the heap, where the kernel would write a handler's frame.
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
