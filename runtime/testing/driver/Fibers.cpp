// Allocates stacks and switches between them, with a few instructions on x86-64 and ucontext
// elsewhere.
#include "runtime/testing/driver/Fibers.h"
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#if PSRT_FIBERS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if PSRT_FIBERS_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace psrt::fake {

namespace {

constexpr size_t stackBytes = 64 * 1024;
/// Stacks start at different offsets in their pages. Otherwise, all of them would compete for a few
/// cache lines.
constexpr size_t colorBytes = 192, colors = 16;

size_t guardBytes() { return size_t(sysconf(_SC_PAGESIZE)); }

/// The running fiber and its predecessor, for the first steps on a new stack.
thread_local constinit Fiber *running __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local constinit Fiber *previous __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local size_t made = 0; // number of fibers created by this thread

} // namespace

#if defined(__x86_64__)

extern "C" void psrt_fake_switch(void **save, void *resume);
// Saves the callee-saved registers on the old stack and restores them from the new stack. Rounding
// modes are not switched, as kernels do not change them. Ends with a jump, which the processor
// predicts better than a return.
asm(R"(
  .text
  .p2align 4
  .globl psrt_fake_switch
  .hidden psrt_fake_switch
  .type psrt_fake_switch, @function
psrt_fake_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
  .size psrt_fake_switch, .-psrt_fake_switch
)");

static void switchContext(void *&from, void *to) { psrt_fake_switch(&from, to); }

/// Creates a stack on which the first switch continues at `entry`, aligned as after a call.
static void *newContext(char *low, size_t bytes, void (*entry)(), void *) {
  auto *top = reinterpret_cast<uint64_t *>(low + bytes) - 2;
  *top = reinterpret_cast<uint64_t>(entry);
  uint64_t *frame = top - 6; // the registers
  std::memset(frame, 0, 6 * sizeof(*frame));
  return frame;
}
static void *ownContext() { return nullptr; }
static void freeContext(void *) {}

#else

static void switchContext(void *&from, void *to) {
  swapcontext(static_cast<ucontext_t *>(from), static_cast<ucontext_t *>(to));
}

static void *newContext(char *low, size_t bytes, void (*entry)(), void *old) {
  auto *context = old ? static_cast<ucontext_t *>(old) : new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = low;
  context->uc_stack.ss_size = bytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}
static void *ownContext() { return new ucontext_t; }
static void freeContext(void *context) { delete static_cast<ucontext_t *>(context); }

#endif

Fiber::Fiber() : context(ownContext()) {
#if PSRT_FIBERS_TSAN
  tsan = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(void (*entry)()) : entry(entry) {
  void *memory = mmap(nullptr, guardBytes() + stackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED)
    throw std::bad_alloc();
  mapping = static_cast<char *>(memory);
  mprotect(mapping, guardBytes(), PROT_NONE);
  color = made++ % colors * colorBytes;
#if PSRT_FIBERS_ASAN
  bottom = mapping + guardBytes();
  size = stackBytes;
#endif
  restart();
}

Fiber::~Fiber() {
  freeContext(context);
  if (!mapping)
    return;
#if PSRT_FIBERS_TSAN
  __tsan_destroy_fiber(tsan);
#endif
  munmap(mapping, guardBytes() + stackBytes);
}

void Fiber::restart() {
#if PSRT_FIBERS_ASAN
  ASAN_UNPOISON_MEMORY_REGION(bottom, size);
  fakeStack = nullptr;
#endif
#if PSRT_FIBERS_TSAN
  if (tsan)
    __tsan_destroy_fiber(tsan);
  tsan = __tsan_create_fiber(0);
#endif
  context = newContext(mapping + guardBytes(), stackBytes - color, begin, context);
}

void Fiber::begin() {
#if PSRT_FIBERS_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &previous->bottom, &previous->size);
#endif
  running->entry();
  std::abort(); // entry never returns
}

void Fiber::switchTo(Fiber &to) {
  previous = this;
  running = &to;
#if PSRT_FIBERS_ASAN
  __sanitizer_start_switch_fiber(&fakeStack, to.bottom, to.size);
#endif
#if PSRT_FIBERS_TSAN
  __tsan_switch_to_fiber(to.tsan, 0);
#endif
  switchContext(context, to.context);
#if PSRT_FIBERS_ASAN
  __sanitizer_finish_switch_fiber(fakeStack, &previous->bottom, &previous->size);
#endif
}

} // namespace psrt::fake
