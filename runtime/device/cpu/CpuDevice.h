// Declares a rank on the CPU: its thread pool, its scratch memory and its prepared instructions.
#ifndef PSRT_DEVICE_CPU_CPUDEVICE_H
#define PSRT_DEVICE_CPU_CPUDEVICE_H

#include "runtime/core/Backend.h"
#include "runtime/device/cpu/Matmul.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/ThreadPool.h"
#include <deque>

namespace psrt {

/// Data prepared for an instruction; each kind of library call derives its own class.
struct Prepared {
  virtual ~Prepared() = default;
};

/// A rank on the CPU. A piece function on thread t uses the handles and scratch memory of thread t.
/// Exception: part i of a split-K matmul has its result in scratch memory i, whichever thread
/// computes it.
class CpuRank : public RankDevice {
public:
  CpuRank(std::shared_ptr<MatmulCache> cache, int threads, bool dedicated);
  bool bind(Bound &bound) override;
  void reserve() override;
  int threads() const override { return pool.threads(); }
  std::unique_ptr<RankMemory> makeMemory(MemorySizes sizes) override;

  ThreadPool pool;
  std::vector<std::unique_ptr<MatmulRunner>> runners; ///< by thread
  MatmulCache &cache() { return *primitives; }
  /// Finds or creates a primitive, and creates its handles on every thread.
  const MatmulPrimitive *prepareMatmul(const MatmulShape &shape);
  /// Requests at least `bytes` of 64-byte aligned scratch per thread, available after reserve().
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
  /// `run` and `prepared` by instruction and accumulate flag, shared by all runs of a function.
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
