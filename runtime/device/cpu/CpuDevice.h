// Declares a rank on the CPU: its thread pool, its scratch memory and its prepared instructions.
#ifndef PSRT_DEVICE_CPU_CPUDEVICE_H
#define PSRT_DEVICE_CPU_CPUDEVICE_H

#include "runtime/core/Backend.h"
#include "runtime/device/cpu/Matmul.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/ThreadPool.h"
#include <deque>

namespace psrt {

/// Base class of the data prepared for an instruction. Each kind of library call has its own
/// derived class.
struct Prepared {
  virtual ~Prepared() = default;
};

/// A rank on the CPU. Thread t of the pool uses the handles and the scratch memory of index t.
/// Exception: part i of a split-K matmul is written to the scratch memory of index i, whichever
/// thread computes the part.
class CpuRank : public RankDevice {
public:
  CpuRank(std::shared_ptr<MatmulCache> cache, int threads, bool dedicated);
  bool bind(Bound &bound) override;
  void reserve() override;
  int threads() const override { return pool.threads(); }
  std::unique_ptr<RankMemory> makeMemory(MemorySizes sizes) override;

  ThreadPool pool;
  std::vector<std::unique_ptr<MatmulRunner>> runners; ///< indexed by thread
  MatmulCache &cache() { return *primitives; }
  /// Finds or creates a primitive, and creates its handles on every thread.
  const MatmulPrimitive *prepareMatmul(const MatmulShape &shape);
  /// Requests at least `bytes` of 64-byte aligned memory per thread, which reserve() allocates.
  void needScratch(size_t bytes) { scratchBytes = std::max(scratchBytes, bytes); }
  float *scratch(int thread) { return reinterpret_cast<float *>(scratchMemory[thread]); }
  template <typename T> T *keep(std::unique_ptr<T> prepared) {
    T *result = prepared.get();
    kept.push_back(std::move(prepared));
    return result;
  }
  static CpuRank &of(const Bound &bound) { return *static_cast<CpuRank *>(bound.self); }

private:
  std::shared_ptr<MatmulCache> primitives;
  std::deque<std::unique_ptr<Prepared>> kept;
  /// Bound::run and Bound::prepared for each pair of instruction and accumulate flag. All runs of a
  /// function share these entries.
  std::map<std::pair<const Instruction *, bool>, std::pair<void (*)(const Bound &), void *>>
      prepared;
  size_t scratchBytes = 0;
  std::vector<std::vector<char>> scratchOwned;
  std::vector<char *> scratchMemory;
};

/// Each function sets `bound.run` and `bound.prepared` for one kind of instruction.
void bindMatmul(CpuRank &rank, const MatmulOp &op, Bound &bound);
void bindCall(CpuRank &rank, const AttentionOp &op, Bound &bound);
void bindCall(CpuRank &rank, const EmbeddingOp &op, Bound &bound);
void bindCall(CpuRank &rank, const ConvolutionOp &op, Bound &bound);
void bindCall(CpuRank &rank, const MaxPoolOp &op, Bound &bound);
void bindCall(CpuRank &rank, const SortOp &op, Bound &bound);

} // namespace psrt

#endif
