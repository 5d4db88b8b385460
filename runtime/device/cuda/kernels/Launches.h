// Chooses the kernels and arguments of an instruction from its sizes and device pointers. The
// choice is made once, when the instruction is bound, and needs no driver.
#ifndef PSRT_DEVICE_CUDA_KERNELS_LAUNCHES_H
#define PSRT_DEVICE_CUDA_KERNELS_LAUNCHES_H

#include "runtime/core/Program.h"
#include <cstddef>

extern "C" {
/// The kernels as null-terminated PTX, and as a replay image (an ELF shared object).
extern const char psrt_cuda_kernels_ptx[];
extern const uint64_t psrt_cuda_kernels_ptx_size;
extern const char psrt_cuda_kernels_replay[];
extern const uint64_t psrt_cuda_kernels_replay_size;
}

namespace psrt::cuda {

/// One launch. The kernel's only parameter is the struct whose bytes are `arguments`.
struct KernelLaunch {
  std::string kernel;
  uint32_t grid = 1, block = 128;
  std::vector<std::byte>
      arguments; ///< bytes of a struct in Arguments.h, or in the header of the family of kernels
};
/// Returns the names of all kernels.
std::vector<std::string> ptxKernels();
/// Returns the PTX of one kernel as a complete module. Fails if there is no such kernel.
std::string ptxOfKernel(const std::string &name);

/// Launches in the order in which they run on a stream.
using Launches = std::vector<KernelLaunch>;

/// Returns the bytes of workspace that the launches of an instruction use. The workspace must be
/// aligned to 16 bytes.
int64_t workspaceBytes(const EmbeddingOp &op);
int64_t workspaceBytes(const AttentionOp &op);
int64_t workspaceBytes(const SortOp &op);

/// The functions below build the launches of an instruction. `buffers` and `scalars` ([seed, step,
/// micro_batch, ...]) are device pointers, as in Bound. These functions fail if no kernel supports
/// the problem.
Launches launchEmbedding(const EmbeddingOp &op, void *const *buffers, bool accumulate,
                         void *workspace);
Launches launchAttention(const AttentionOp &op, void *const *buffers, const int64_t *scalars,
                         int64_t key, void *workspace);
/// Writes the f32 bias that represents the mask and the padding mask, with the sizes [b, h, t, s].
/// A size is 1 if the bias is the same along the dim.
Launches launchAttentionBias(const AttentionOp &op, const std::array<int64_t, 4> &sizes,
                             void *const *buffers, void *out);
/// Writes a dense copy [b, h, t, d] of dout, in which each row is divided by the row's sum of
/// probabilities. This sum is 1 unless the log-sum-exp is too large to represent the row's sum of
/// exponentials. `workspace` has workspaceBytes(op) bytes.
Launches launchAttentionDout(const AttentionOp &op, void *const *buffers, void *workspace,
                             void *out);
/// Writes the dropout mask, a dense tensor [b, h, t, s] of the heads' dtype. An element is 1 if
/// dropout keeps the probability, else 0.
Launches launchAttentionKept(const AttentionOp &op, void *const *buffers, const int64_t *scalars,
                             int64_t key, void *out);
/// Writes a copy of the log-sum-exps, with inf for rows that see no key.
Launches launchAttentionLse(const AttentionOp &op, void *const *buffers, void *out);
Launches launchMaxPool(const MaxPoolOp &op, void *const *buffers);
Launches launchConvolution(const ConvolutionOp &op, void *const *buffers);
Launches launchSort(const SortOp &op, void *const *buffers, void *workspace);

/// `batches` matrices of rows x columns bytes, which are `batchStride` bytes apart. Each row is
/// contiguous, and rows are `rowStride` bytes apart. All sizes and strides are multiples of 4.
struct ByteMatrices {
  int64_t rows = 0, columns = 0, rowStride = 0, batches = 1, batchStride = 0;
};
/// Writes the transposed matrices (columns x rows) one after another, without gaps.
Launches launchTranspose(const void *in, void *out, const ByteMatrices &matrices);

/// Compute the tanh GELU of x, or `grad` times the GELU's derivative at x. All tensors are dense,
/// and `out` may be one of the operands.
Launches launchGelu(Dtype dtype, const void *x, void *out, int64_t count);
Launches launchGeluGrad(Dtype dtype, const void *grad, const void *x, void *out, int64_t count);

Launches launchZero(void *out, int64_t bytes);
Launches launchShardIndex(void *out, int64_t value);

//===--- collectives between ranks that access each other's memory -------------===//

using Pointers = std::vector<const void *>;

/// Reduces `count` elements over all inputs `ins`, in order, and writes the results to all outputs
/// `outs`. An output may be the same buffer as an input. If there are more than 64 inputs or
/// outputs, `pointers` is a device array of the addresses of all inputs, then of all outputs.
Launches launchReduce(CollectiveOp::Reduction reduction, Dtype dtype, const Pointers &ins,
                      const std::vector<void *> &outs, int64_t count,
                      const uint64_t *pointers = nullptr);
/// Computes the part of member `member` in a reduce_scatter. `out` must not overlap an input. If
/// there are more than 64 inputs, `pointers` is a device array: the address of this member's part
/// in each input (at offset getScatterOffset()), then the address of `out`.
Launches launchReduceScatter(const CollectiveOp &op, const Pointers &ins, int member, void *out,
                             const uint64_t *pointers = nullptr);
/// Returns the bytes from the start of an operand to a member's part.
int64_t getScatterOffset(const CollectiveOp &op, int member);
/// In the functions below, `out` must not overlap an input.
Launches launchAllGather(const CollectiveOp &op, const Pointers &ins, void *out);
Launches launchAllToAll(const CollectiveOp &op, const Pointers &ins, int member, void *out);
Launches launchShardSlice(const CollectiveOp &op, int member, const void *in, void *out);

} // namespace psrt::cuda

#endif
