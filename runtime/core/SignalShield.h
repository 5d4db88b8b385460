// Keeps signal handlers away from compute threads.
#ifndef PSRT_CORE_SIGNALSHIELD_H
#define PSRT_CORE_SIGNALSHIELD_H

#include <csignal>

namespace psrt {

/// Blocks signals on the calling thread during the object's lifetime. Threads that this thread
/// starts meanwhile block signals for their whole lives. Signals that a thread itself causes
/// (SIGSEGV, SIGBUS, ...) still arrive. Reason: oneDNN's AVX-512 matmuls use the stack pointer as
/// an ordinary register. During such a matmul, the operating system would write the frame of a
/// signal handler into the heap.
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
