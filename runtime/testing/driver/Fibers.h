// Defines fibers: stacks that take turns on one thread, without system calls.
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

/// A stack and its suspended execution. The thread's own stack is also a fiber.
class Fiber {
public:
  /// Wraps the calling thread's own stack.
  Fiber();
  /// Creates a new stack. The first switch to it calls entry(), which must never return.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Suspends this fiber, which must be the running one, and continues `to`. Returns when another
  /// fiber switches back to this one.
  void switchTo(Fiber &to);
  /// Discards the stack's execution; the next switch calls entry() again.
  void restart();

private:
  static void begin();

  void (*entry)() = nullptr;
  char *mapping = nullptr; ///< null for the thread's own stack
  size_t color = 0;        ///< bytes left free at the top
  void *context = nullptr; ///< suspended state: a stack pointer or a ucontext_t
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
