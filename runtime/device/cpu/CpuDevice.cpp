// Binds instructions to the CPU. This file implements kernels, copies, transfers and shard indices.
// Each kind of library call has a file of its own.
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/core/Arena.h"
#include "runtime/core/Status.h"
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace psrt {

extern const RowMath rowMath_baseline;
#if defined(__x86_64__)
extern const RowMath rowMath_avx2, rowMath_avx512;
#endif

#if defined(__x86_64__)
/// Instruction sets that RowMath.cpp is compiled for.
enum class Vectors { Baseline, Avx2, Avx512 };

/// Returns the widest vectors that both the processor and the operating system support. Does not
/// use __builtin_cpu_supports, which needs a library of the compiler. Users may link programs on a
/// machine without a compiler.
static Vectors findVectors() {
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE) || !(ecx & bit_FMA))
    return Vectors::Baseline;
  unsigned saved, high; // registers that the operating system saves
  asm("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  constexpr unsigned kYmm = 0x6, kZmm = 0xe6;
  if ((saved & kYmm) != kYmm || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ||
      !(ebx & bit_AVX2))
    return Vectors::Baseline;
  constexpr unsigned kAll = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
  return (saved & kZmm) == kZmm && (ebx & kAll) == kAll ? Vectors::Avx512 : Vectors::Avx2;
}
#endif

const RowMath &rowMath() {
#if defined(__x86_64__)
  static const Vectors vectors = findVectors();
  if (vectors == Vectors::Avx512)
    return rowMath_avx512;
  if (vectors == Vectors::Avx2)
    return rowMath_avx2;
#endif
  return rowMath_baseline;
}

CpuRank::CpuRank(std::shared_ptr<MatmulCache> cache, int threads, bool dedicated)
    : pool(threads, dedicated), primitives(std::move(cache)) {
  for (int i = 0; i < threads; ++i)
    runners.push_back(std::make_unique<MatmulRunner>(*primitives));
}

const MatmulPrimitive *CpuRank::prepareMatmul(const MatmulShape &shape) {
  const MatmulPrimitive *result = primitives->get(shape);
  for (std::unique_ptr<MatmulRunner> &runner : runners)
    runner->prepare(result);
  return result;
}

void CpuRank::reserve() {
  scratchOwned.resize(threads());
  scratchMemory.resize(threads());
  for (int i = 0; i < threads(); ++i) {
    if (scratchOwned[i].size() < scratchBytes + 64)
      scratchOwned[i].resize(scratchBytes + 64);
    char *data = scratchOwned[i].data();
    scratchMemory[i] = data + (-reinterpret_cast<uintptr_t>(data) & 63);
  }
}

std::unique_ptr<RankMemory> CpuRank::makeMemory(MemorySizes sizes) {
  return std::make_unique<Arena>(sizes.end());
}

//===--- simple instructions ----------------------------------------------===//

static void runKernel(const Bound &bound) {
  const KernelOp &op = std::get<KernelOp>(bound.instruction->op);
  auto piece = [](void *context, int, int64_t lo, int64_t hi) {
    const Bound &bound = *static_cast<const Bound *>(context);
    bound.kernel(bound.buffers, bound.scalars, lo, hi);
  };
  CpuRank::of(bound).pool.run(piece, const_cast<Bound *>(&bound), op.rows, op.grain);
}

static void runCopy(const Bound &bound) {
  struct Context {
    char *to;
    const char *from;
  } context;
  const CopyOp &op = std::get<CopyOp>(bound.instruction->op);
  context.from = op.zero ? nullptr : static_cast<const char *>(bound.buffers[0]);
  context.to = static_cast<char *>(bound.buffers[op.zero ? 0 : 1]);
  if (context.from && std::abs(context.to - context.from) < op.bytes) { // overlapping: one piece
    std::memmove(context.to, context.from, op.bytes);
    return;
  }
  auto piece = [](void *data, int, int64_t lo, int64_t hi) {
    Context &c = *static_cast<Context *>(data);
    c.from ? std::memcpy(c.to + lo, c.from + lo, hi - lo) : std::memset(c.to + lo, 0, hi - lo);
  };
  CpuRank::of(bound).pool.run(piece, &context, op.bytes, 1 << 18);
}

/// Copies before it returns, although a TransferOp may be asynchronous: on the CPU, offloaded data
/// is in host memory like all other data, so there is nothing to overlap.
static void runTransfer(const Bound &bound) {
  const TransferOp &op = std::get<TransferOp>(bound.instruction->op);
  struct Context {
    char *to;
    const char *from;
  } context;
  auto piece = [](void *data, int, int64_t lo, int64_t hi) {
    Context &c = *static_cast<Context *>(data);
    std::memcpy(c.to + lo, c.from + lo, hi - lo);
  };
  for (size_t i = 0; i < op.sizes.size(); ++i) {
    context.from = static_cast<const char *>(bound.buffers[i]);
    context.to = static_cast<char *>(bound.buffers[op.sizes.size() + i]);
    CpuRank::of(bound).pool.run(piece, &context, op.sizes[i], 1 << 18);
  }
}

static void runShardIndex(const Bound &bound) {
  *static_cast<int64_t *>(bound.buffers[0]) = reinterpret_cast<int64_t>(bound.prepared);
}

namespace {
/// Chooses the binding by the type of the operation.
struct Binder {
  CpuRank &rank;
  Bound &bound;
  bool operator()(const KernelOp &) { return bound.run = runKernel, true; }
  bool operator()(const CopyOp &) { return bound.run = runCopy, true; }
  bool operator()(const MatmulOp &op) { return bindMatmul(rank, op, bound), true; }
  bool operator()(const LibraryOp auto &op) { return bindCall(rank, op, bound), true; }
  bool operator()(const ShardIndexOp &) {
    bound.run = runShardIndex;
    bound.prepared =
        reinterpret_cast<void *>(bound.key); // the executor stores the shard index in `key`
    return true;
  }
  bool operator()(const CollectiveOp &) { return false; }
  bool operator()(const MessageOp &) { return false; }
  bool operator()(const TransferOp &) { return bound.run = runTransfer, true; }
  bool operator()(const WaitOp &op) {
    if (op.isForTransfer)
      bound.run = [](const Bound &) {};
    return op.isForTransfer;
  }
};

class CpuDevice : public Device {
public:
  std::unique_ptr<RankDevice> makeRank(int threads, bool dedicated, int) override {
    return std::make_unique<CpuRank>(cache, threads, dedicated);
  }

private:
  std::shared_ptr<MatmulCache> cache = std::make_shared<MatmulCache>();
};
} // namespace

bool CpuRank::bind(Bound &bound) {
  bound.self = this;
  auto [it, isNew] = prepared.try_emplace({bound.instruction, bound.accumulate});
  if (!isNew) {
    std::tie(bound.run, bound.prepared) = it->second;
    return bound.run != nullptr;
  }
  bool known = std::visit(Binder{*this, bound}, bound.instruction->op);
  it->second = {bound.run, bound.prepared};
  return known;
}

std::unique_ptr<Device> makeCpuDevice() { return std::make_unique<CpuDevice>(); }

} // namespace psrt

extern "C" psrt::Device *psrt_make_cpu_device(const psrt::DeviceRequest &) {
  return new psrt::CpuDevice();
}
