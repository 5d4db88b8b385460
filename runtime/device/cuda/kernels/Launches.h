// Which kernels an instruction launches, with what arguments: from sizes and device pointers alone,
// so that it is done once, when the instruction is bound. No driver is needed.
#ifndef PSRT_DEVICE_CUDA_KERNELS_LAUNCHES_H
#define PSRT_DEVICE_CUDA_KERNELS_LAUNCHES_H

#include "runtime/core/Program.h"
#include <cstddef>

extern "C" {
/// The kernels as PTX (zero-terminated), and as a replay image: an ELF shared object.
extern const char psrt_cuda_kernels_ptx[];
extern const uint64_t psrt_cuda_kernels_ptx_size;
extern const char psrt_cuda_kernels_replay[];
extern const uint64_t psrt_cuda_kernels_replay_size;
}

namespace psrt::cuda {

/// One launch: the kernel takes the bytes of `arguments` as its one parameter.
struct KernelLaunch {
  std::string kernel;
  uint32_t grid = 1, block = 128;
  std::vector<std::byte> arguments; ///< of one of the structs in Arguments.h
};
/// The names of all kernels, and the PTX of one, a module by itself; fails where there is none.
std::vector<std::string> ptxKernels();
std::string ptxOfKernel(const std::string &name);

/// In the order in which they run on a stream.
using Launches = std::vector<KernelLaunch>;

/// Bytes of device memory that the launches of an instruction use while they run, aligned to 16.
int64_t workspaceBytes(const EmbeddingOp &op);
int64_t workspaceBytes(const AttentionOp &op);

/// `buffers`: device pointers, as of Bound; `scalars` too: [seed, step, micro_batch, ...]. They
/// fail on what no kernel is built for, as the cpu does.
Launches launchEmbedding(const EmbeddingOp &op, void *const *buffers, bool accumulate,
                         void *workspace);
Launches launchAttention(const AttentionOp &op, void *const *buffers, const int64_t *scalars,
                         int64_t key, void *workspace);
/// Mask and padding as f32 of those sizes ([b, h, t, s], 1 where it is the same for all).
Launches launchAttentionBias(const AttentionOp &op, const std::array<int64_t, 4> &sizes,
                             void *const *buffers, void *out);
/// The cotangent, divided by the sum of the probabilities that the log-sum gives (1 but where it is
/// too large to hold the sum), as a dense [b, h, t, d]. `workspace`: of workspaceBytes(op).
Launches launchAttentionDout(const AttentionOp &op, void *const *buffers, void *workspace,
                             void *out);
/// 1 where dropout keeps a probability, else 0, of the type of the heads: a dense [b, h, t, s].
Launches launchAttentionKept(const AttentionOp &op, void *const *buffers, const int64_t *scalars,
                             int64_t key, void *out);
/// The log-sums, but inf for rows that see nothing.
Launches launchAttentionLse(const AttentionOp &op, void *const *buffers, void *out);
Launches launchMaxPool(const MaxPoolOp &op, void *const *buffers);
Launches launchConvolution(const ConvolutionOp &op, void *const *buffers);

/// Matrices of bytes, one behind the other at `batchStride`: rows x columns, each row dense.
struct ByteMatrices {
  int64_t rows = 0, columns = 0, rowStride = 0, batches = 1, batchStride = 0; ///< multiples of 4
};
/// Writes them as columns x rows, one dense behind the other.
Launches launchTranspose(const void *in, void *out, const ByteMatrices &matrices);

/// out = the GELU (by the tanh formula) of x, or grad times its derivative there; of dense
/// elements, out may be one of the others.
Launches launchGelu(Dtype dtype, const void *x, void *out, int64_t count);
Launches launchGeluGrad(Dtype dtype, const void *grad, const void *x, void *out, int64_t count);

Launches launchZero(void *out, int64_t bytes);
Launches launchShardIndex(void *out, int64_t value);

//===--- collectives among ranks that see each other's memory -------------===//

using Pointers = std::vector<const void *>;

/// Combines `count` elements of all `ins`, in their order, and writes them to all `outs`; an out
/// may be an in. With more than 64 of either, `pointers` is a device array of the ins, then the
/// outs.
Launches launchReduce(CollectiveOp::Reduction reduction, Dtype dtype, const Pointers &ins,
                      const std::vector<void *> &outs, int64_t count,
                      const uint64_t *pointers = nullptr);
/// Member `member` of a reduce_scatter; `out` is no part of an in. `pointers`: of ins at this
/// member's part (its offset is getScatterOffset), then of the out.
Launches launchReduceScatter(const CollectiveOp &op, const Pointers &ins, int member, void *out,
                             const uint64_t *pointers = nullptr);
/// Bytes from the begin of an operand to a member's part.
int64_t getScatterOffset(const CollectiveOp &op, int member);
/// `out` is no part of an in, here and below.
Launches launchAllGather(const CollectiveOp &op, const Pointers &ins, void *out);
Launches launchAllToAll(const CollectiveOp &op, const Pointers &ins, int member, void *out);
Launches launchShardSlice(const CollectiveOp &op, int member, const void *in, void *out);

} // namespace psrt::cuda

#endif
