// Runs blocks of a replay image with fibers. A thread runs until it waits for its warp or its
// block; then another thread runs.
#include "runtime/device/cuda/kernels/test/ReplayRunner.h"
#include "runtime/device/cuda/Replay.h"
#include <csetjmp>
#include <dlfcn.h>
#include <memory>
#include <stdexcept>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace psrt::cuda {
namespace {

using Kernel = void (*)(void **parameters);
enum class Waits { Nothing, Warp, Block, Over };

struct Fiber {
  ucontext_t context;
  jmp_buf resume;
  std::unique_ptr<char[]> stack;
  bool begun = false;
  Waits waits = Waits::Nothing;
  uint32_t value = 0, mask = 0;
};

constexpr size_t kStackBytes = 256 << 10;

/// Runs one block at a time.
class Block {
public:
  void run(Kernel kernel, void **parameters, uint32_t index, uint32_t grid, uint32_t size);

  uint32_t index = 0, grid = 0, size = 0, current = 0;
  /// Suspends the running fiber and switches to the scheduler.
  void wait(Waits reason);
  Fiber &fiber() { return fibers[current]; }

private:
  static void begin();
  void resume(uint32_t number);
  void runWarp(uint32_t first, uint32_t last);
  bool finishShuffle(uint32_t first, uint32_t last);

  Kernel kernel = nullptr;
  void **parameters = nullptr;
  jmp_buf scheduler;
  std::vector<Fiber> fibers;
};

Block block;

void Block::begin() {
  block.kernel(block.parameters);
  block.wait(Waits::Over);
}

void Block::wait(Waits reason) {
  fiber().waits = reason;
  if (_setjmp(fiber().resume) == 0)
    _longjmp(scheduler, 1);
}

/// Runs a fiber until it waits. Only the first switch to a fiber needs system calls.
void Block::resume(uint32_t number) {
  current = number;
  Fiber &next = fibers[number];
  next.waits = Waits::Nothing;
  if (_setjmp(scheduler) != 0)
    return;
  if (next.begun)
    _longjmp(next.resume, 1);
  next.begun = true;
  getcontext(&next.context);
  next.context.uc_stack.ss_sp = next.stack.get();
  next.context.uc_stack.ss_size = kStackBytes;
  next.context.uc_link = nullptr;
  makecontext(&next.context, begin, 0);
  setcontext(&next.context);
}

/// Exchanges the values of a shuffle if all threads of the warp wait for the shuffle. Returns false
/// otherwise.
bool Block::finishShuffle(uint32_t first, uint32_t last) {
  uint32_t values[32];
  for (uint32_t i = first; i < last; ++i) {
    if (fibers[i].waits != Waits::Warp)
      return false;
    values[i - first] = fibers[i].value;
  }
  for (uint32_t i = first; i < last; ++i) {
    uint32_t from = (i - first) ^ fibers[i].mask;
    fibers[i].value = values[from < last - first ? from : i - first];
    fibers[i].waits = Waits::Nothing;
  }
  return true;
}

/// Runs a warp until all its threads wait for the block or have ended. Blocks with odd indices run
/// their threads in reverse order, so that a missing barrier gives wrong results in one of the two
/// orders.
void Block::runWarp(uint32_t first, uint32_t last) {
  do
    for (uint32_t i = 0; i < last - first; ++i)
      if (uint32_t next = index % 2 ? last - 1 - i : first + i;
          fibers[next].waits == Waits::Nothing)
        resume(next);
  while (finishShuffle(first, last));
}

void Block::run(Kernel kernel, void **parameters, uint32_t index, uint32_t grid, uint32_t size) {
  this->kernel = kernel, this->parameters = parameters;
  this->index = index, this->grid = grid, this->size = size;
  if (fibers.size() < size)
    fibers.resize(size);
  for (uint32_t i = 0; i < size; ++i) {
    fibers[i].begun = false;
    fibers[i].waits = Waits::Nothing;
    if (!fibers[i].stack)
      fibers[i].stack = std::make_unique<char[]>(kStackBytes);
  }
  while (true) {
    uint32_t over = 0, atBarrier = 0;
    for (uint32_t i = 0, warps = (size + 31) / 32; i < warps; ++i) {
      uint32_t first = (index % 2 ? warps - 1 - i : i) * 32;
      runWarp(first, std::min(first + 32, size));
    }
    for (uint32_t i = 0; i < size; ++i)
      over += fibers[i].waits == Waits::Over, atBarrier += fibers[i].waits == Waits::Block;
    if (over == size)
      return;
    if (atBarrier != size)
      throw std::runtime_error("threads wait for threads that never arrive");
    for (uint32_t i = 0; i < size; ++i)
      fibers[i].waits = Waits::Nothing;
  }
}

const PsrtReplayHooks hooks = {
    [] { return block.current; },
    [] { return block.index; },
    [] { return block.size; },
    [] { return block.grid; },
    [] { block.wait(Waits::Block); },
    [](uint32_t value, uint32_t mask) {
      block.fiber().value = value;
      block.fiber().mask = mask;
      block.wait(Waits::Warp);
      return block.fiber().value;
    },
    []() -> void * { return nullptr; },
};

/// Loads the embedded image.
void *loadImage() {
  int file = memfd_create("kernels", 0);
  auto size = ssize_t(psrt_cuda_kernels_replay_size);
  if (file < 0 || write(file, psrt_cuda_kernels_replay, size) != size)
    throw std::runtime_error("cannot write the replay image to memory");
  void *image = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!image)
    throw std::runtime_error(dlerror());
  close(file);
  *static_cast<const PsrtReplayHooks **>(dlsym(image, "psrt_replay_hooks")) = &hooks;
  return image;
}

} // namespace

void runReplay(const Launches &launches) {
  static void *image = loadImage();
  for (const KernelLaunch &launch : launches) {
    auto kernel = reinterpret_cast<Kernel>(dlsym(image, launch.kernel.c_str()));
    auto *sizes =
        static_cast<const uint32_t *>(dlsym(image, (launch.kernel + "_parameters").c_str()));
    if (!kernel || !sizes)
      throw std::runtime_error("unknown kernel " + launch.kernel);
    if (sizes[0] != 1 || sizes[1] != launch.arguments.size())
      throw std::runtime_error("wrong size of arguments for " + launch.kernel);
    void *parameters[] = {const_cast<std::byte *>(launch.arguments.data())};
    for (uint32_t i = 0; i < launch.grid; ++i)
      block.run(kernel, parameters, i, launch.grid, launch.block);
  }
}

} // namespace psrt::cuda
