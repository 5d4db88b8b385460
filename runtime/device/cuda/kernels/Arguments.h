// The arguments of the runtime's kernels: plain structs that host and device see alike. All
// pointers are of the device; sizes and strides count elements unless it is said otherwise.
#ifndef PSRT_DEVICE_CUDA_KERNELS_ARGUMENTS_H
#define PSRT_DEVICE_CUDA_KERNELS_ARGUMENTS_H

#include <cstdint>

namespace psrt::cuda {

/// Rows of a table by index.
struct EmbeddingArguments {
  const void *table, *indices;
  void *out;
  const int64_t *firstRow; ///< or null
  int64_t count, rows;
  int64_t width; ///< of a row, in the units that are copied
  int32_t wideIndices;
};

/// The gradient of the above, in two steps: the places of `indices` are sorted by row, then each
/// row's are summed up in ascending order.
struct EmbeddingGradArguments {
  const void *grad, *indices;
  void *out;
  const int64_t *firstRow; ///< or null
  uint32_t *places, *keys; ///< workspace: the places in order, and the rows that they belong to
  int64_t count, rows, width, paddingIndex;
  int32_t wideIndices, accumulate;
  int32_t packed; ///< four elements at once, which rows are aligned for
};

struct ZeroArguments {
  void *out;
  int64_t bytes;
};

/// A GELU, or its derivative's matmul with a cotangent, of `count` elements.
struct GeluArguments {
  const void *x;    ///< what it is of
  const void *grad; ///< or null
  void *out;        ///< may be one of the others
  int64_t count;
  int32_t packed; ///< four elements at once
};

struct WriteIndexArguments {
  int64_t *out;
  int64_t value;
};

inline constexpr int kMaxParts = 64; ///< of a reduction's or a gather's members

/// Elements [outer, row] of each in, combined in their order, go to every out. `pointers`, where
/// not null: a device array with the ins and the outs, where they are too many.
struct ReduceArguments {
  const void *ins[kMaxParts];
  void *outs[kMaxParts];
  const uint64_t *pointers;
  int64_t outer, row, inStride, outStride; ///< strides of the outer dim
  int32_t inCount, outCount;
  int32_t reduction; ///< CollectiveOp::Reduction
  int32_t packed;    ///< 16 bytes at once
};

inline constexpr int kCopyDims = 5;

/// Parts of `sizes` units each, from one in each to one out.
struct CopyArguments {
  const void *ins[kMaxParts];
  void *out;
  const uint64_t *pointers; ///< a device array in place of `ins`, or null
  int64_t parts, outPart;   ///< units between the parts in `out`
  int64_t sizes[kCopyDims], inStrides[kCopyDims], outStrides[kCopyDims];
};

/// Rows of `kept` units from a whole tensor, filled up with zeros to `size`.
struct SliceArguments {
  const void *in;
  void *out;
  int64_t outer, size, kept, whole;
};

/// Matrices of bytes, rows x columns, each row dense and `ld` behind the one before; they are
/// written as columns x rows, one behind the other.
inline constexpr int kTransposeTile = 64;
struct TransposeArguments {
  const uint8_t *in;
  uint8_t *out;
  int64_t rows, columns, ld; ///< multiples of 4
  int64_t batches, batchStride;
};

/// How windows lie, as WindowShape.
struct WindowArguments {
  int32_t in[3], out[3], kernel[3], strides[3], low[3], dilation[3];
};

struct MaxPoolArguments {
  const void *x, *y; ///< y: the cotangent; of the gradient only
  void *out;
  int64_t planes;
  WindowArguments windows;
};

struct ConvolutionArguments {
  const void *x, *w, *y; ///< the one that is computed is `out`
  void *out;
  int64_t batch, groups, inChannels, outChannels; ///< channels: of a group
  WindowArguments windows;
};

struct HeadStrides {
  int64_t batch, head, row;
};

inline constexpr int kMaxFactors = 16;
enum MaskKind : int32_t { NoMask, BoolMask, F32Mask, Bf16Mask, F16Mask };

/// Masks and padding of attention as numbers that are added to scores.
struct AttentionBiasArguments {
  const void *mask;       ///< of `maskKind`; or null
  const uint8_t *padding; ///< [b, s], 0 where a key is hidden; or null
  float *out;             ///< [b, h, t, s], dense
  int64_t maskStrides[4];
  int32_t b, h, t, s; ///< 1 where it is the same for all
  MaskKind maskKind;
};

/// AttentionOp, forward and backward.
struct AttentionArguments {
  const void *q, *k, *v, *dout;
  void *out, *dq, *dk, *dv;
  float *lse; ///< of the forward: or null
  const void *mask;
  const uint8_t *padding;
  const int64_t *offset;  ///< or null
  const int64_t *scalars; ///< [seed, step, micro_batch, ...]
  /// Workspace of the backward, [b, h, t] each: the sum of dout times out, and what probabilities
  /// are multiplied by (1 but where the log-sum is too large for them).
  float *delta, *factor;
  HeadStrides qStrides, kStrides, vStrides, outStrides, doutStrides, dqStrides, dkStrides,
      dvStrides;
  int64_t maskStrides[4];
  int64_t key, globalSize;
  int32_t b, h, g, t, s, d;
  int32_t causal, window;
  float scale, dropout;
  MaskKind maskKind;
  int32_t packed; ///< rows can be read 16 bytes at once
  int32_t factors;
  int32_t runsOfCounters; ///< the random counters of a row's columns are consecutive
  int64_t factorSizes[kMaxFactors], factorStrides[kMaxFactors];
};

} // namespace psrt::cuda

#endif
