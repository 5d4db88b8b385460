// The CPU device: a pool of threads per rank, kernels called in pieces, matmuls and attention over
// oneDNN.
#ifndef PSRT_DEVICE_CPU_CPUDEVICE_H
#define PSRT_DEVICE_CPU_CPUDEVICE_H

#include "runtime/core/Backend.h"
#include "runtime/device/cpu/Matmul.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/ThreadPool.h"
#include <deque>

namespace psrt {

/// What an instruction was prepared to; each kind of library call derives its own.
struct Prepared {
  virtual ~Prepared() = default;
};

/// One rank on the CPU. The handles of thread t belong to piece functions of thread t; so does its
/// scratch memory, except that a sum of matmuls has one for each part, whoever computes it.
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
  /// Makes a primitive and its handles on every thread.
  const MatmulPrimitive *prepareMatmul(const MatmulShape &shape);
  /// At least `bytes` of 64-byte aligned scratch on every thread after reserve().
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
  /// Runs of one function share what its instructions were prepared to.
  std::map<std::pair<const Instruction *, bool>, std::pair<void (*)(const Bound &), void *>>
      prepared;
  size_t scratchBytes = 0;
  std::vector<std::vector<char>> scratchOwned;
  std::vector<char *> scratchMemory;
};

/// Each fills run and prepared for its kind of instruction (one file each).
void bindMatmul(CpuRank &rank, const MatmulOp &op, Bound &bound);
void bindAttention(CpuRank &rank, const AttentionOp &op, Bound &bound);
void bindEmbedding(CpuRank &rank, const EmbeddingOp &op, Bound &bound);
void bindConvolution(CpuRank &rank, const ConvolutionOp &op, Bound &bound);
void bindMaxPool(CpuRank &rank, const MaxPoolOp &op, Bound &bound);

} // namespace psrt

#endif
