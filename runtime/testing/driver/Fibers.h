// Fibers: stacks that take turns on one thread, without a system call.
#ifndef PSRT_TESTING_DRIVER_FIBERS_H
#define PSRT_TESTING_DRIVER_FIBERS_H

#include <cstddef>
#include <memory>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PSRT_FIBERS_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define PSRT_FIBERS_TSAN 1
#endif
#endif

namespace psrt::fake {

/// A stack with what ran on it last. The thread's own stack is one too.
class Fiber {
public:
  /// The calling thread's own stack.
  Fiber();
  /// A new stack, on which entry() is called at the first switch to it; entry never returns.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Goes on with `to`; returns when something switches back to this one, which must be the one
  /// that runs.
  void switchTo(Fiber &to);
  /// Forgets what ran on the stack: entry() is called again at the next switch.
  void restart();

private:
  static void begin();

  void (*entry)() = nullptr;
  char *mapping = nullptr; ///< null: the thread's own stack
  size_t color = 0;        ///< bytes left free at the top
  void *context = nullptr; ///< where it stopped: a stack pointer, or a ucontext_t
#if PSRT_FIBERS_ASAN
  const void *bottom = nullptr;
  size_t size = 0;
  void *fakeStack = nullptr;
#endif
#if PSRT_FIBERS_TSAN
  void *tsan = nullptr;
#endif
};

} // namespace psrt::fake

#endif
