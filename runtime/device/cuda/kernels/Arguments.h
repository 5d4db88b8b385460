// Defines the arguments of the runtime's kernels: plain structs with the same layout on host and
// device. All pointers are device pointers. Sizes and strides are in elements unless specified
// otherwise. A "unit" is the 1 to 16 bytes that a thread copies at once.
#ifndef PSRT_DEVICE_CUDA_KERNELS_ARGUMENTS_H
#define PSRT_DEVICE_CUDA_KERNELS_ARGUMENTS_H

#include <cstdint>

namespace psrt::cuda {

/// Copies the rows of a table that `indices` select.
struct EmbeddingArguments {
  const void *table, *indices;
  void *out;
  const int64_t *firstRow; ///< first row of this shard; may be null
  int64_t count, rows;
  int64_t width; ///< width of a row, in units
  int32_t wideIndices;
};

/// Computes the gradient of an embedding in two steps. First sorts the positions in `indices` by
/// row. Then sums each row's cotangents in ascending order of position.
struct EmbeddingGradArguments {
  const void *grad, *indices;
  void *out;
  const int64_t *firstRow;    ///< first row of this shard; may be null
  uint32_t *positions, *keys; ///< workspace: the sorted positions and their rows
  int64_t count, rows, width, paddingIndex;
  int32_t wideIndices, accumulate;
  int32_t packed; ///< whether to load four elements at once; requires aligned rows
};

struct ZeroArguments {
  void *out;
  int64_t bytes;
};

/// Computes a GELU of `count` elements, or a cotangent times the GELU's derivative.
struct GeluArguments {
  const void *x;    ///< input of the GELU
  const void *grad; ///< the cotangent; null for the GELU itself
  void *out;        ///< may be `x` or `grad`
  int64_t count;
  int32_t packed; ///< whether to load four elements at once
};

struct WriteIndexArguments {
  int64_t *out;
  int64_t value;
};

inline constexpr int kMaxParts = 64; ///< number of addresses in `ins` and in `outs`

/// Reduces [outer, row] elements over all inputs `ins`, in order, and writes the result to all
/// outputs `outs`. If `pointers` is not null, it replaces `ins` and `outs`: a device array of the
/// addresses of all inputs, then of all outputs. It is required for more than kMaxParts inputs or
/// outputs.
struct ReduceArguments {
  const void *ins[kMaxParts];
  void *outs[kMaxParts];
  const uint64_t *pointers;
  int64_t outer, row, inStride, outStride; ///< inStride and outStride: strides of the outer dim
  int32_t inCount, outCount;
  int32_t reduction; ///< CollectiveOp::Reduction
  int32_t packed;    ///< whether to load 16 bytes at once
};

inline constexpr int kCopyDims = 5;

/// Copies one part from each of `ins` to `out`. `sizes` are the sizes of a part, in units.
struct CopyArguments {
  const void *ins[kMaxParts];
  void *out;
  const uint64_t *pointers; ///< device array that replaces `ins`, or null
  int64_t parts, outPart;   ///< outPart: stride in units between the parts in `out`
  int64_t sizes[kCopyDims], inStrides[kCopyDims], outStrides[kCopyDims];
};

/// Copies the first `kept` units of each of `outer` rows, and pads each row to `size` units with
/// zeros. The rows of `in` are `whole` units apart.
struct SliceArguments {
  const void *in;
  void *out;
  int64_t outer, size, kept, whole;
};

inline constexpr int kTransposeTile = 64;

/// Transposes byte matrices of rows x columns. Each row is contiguous, and consecutive rows are
/// `ld` bytes apart. The results, columns x rows, are contiguous and consecutive.
struct TransposeArguments {
  const uint8_t *in;
  uint8_t *out;
  int64_t rows, columns, ld; ///< multiples of 4
  int64_t batches, batchStride;
};

/// Geometry of windows, as in WindowShape.
struct WindowArguments {
  int32_t in[3], out[3], kernel[3], strides[3], low[3], dilation[3];
};

struct MaxPoolArguments {
  const void *x, *y; ///< y: the cotangent; used by the gradient only
  void *out;
  int64_t planes;
  WindowArguments windows;
};

struct ConvolutionArguments {
  const void *x, *w, *y; ///< two are operands; the third is the result, which is written to `out`
  void *out;
  int64_t batch, groups, inChannels, outChannels; ///< channels per group
  WindowArguments windows;
};

struct HeadStrides {
  int64_t batch, head, row;
};

inline constexpr int kMaxFactors = 16;
enum MaskKind : int32_t { NoMask, BoolMask, F32Mask, Bf16Mask, F16Mask };

/// Converts the mask and the padding mask of attention to an f32 bias, which is added to the
/// scores.
struct AttentionBiasArguments {
  const void *mask;       ///< mask of `maskKind`, or null
  const uint8_t *padding; ///< [b, s], 0 if a key is hidden; or null
  float *out;             ///< [b, h, t, s], dense
  int64_t maskStrides[4];
  int32_t b, h, t, s; ///< sizes of `out`; 1 if the bias is the same along the dim
  MaskKind maskKind;
};

/// Arguments of AttentionOp, forward and backward.
struct AttentionArguments {
  const void *q, *k, *v, *dout;
  void *out, *dq, *dk, *dv;
  float *lse; ///< log-sum-exps; may be null in forward
  const void *mask;
  const uint8_t *padding;
  const int64_t *offset;  ///< offset of the dropout counters; may be null
  const int64_t *scalars; ///< [seed, step, micro_batch, ...]
  /// Workspace of backward, [b, h, t] each: the row sums of dout * out, and the factors of
  /// probabilities. A factor is 1 unless the row's log-sum-exp is too large to represent the row's
  /// sum of exponentials.
  float *delta, *factor;
  HeadStrides qStrides, kStrides, vStrides, outStrides, doutStrides, dqStrides, dkStrides,
      dvStrides;
  int64_t maskStrides[4];
  int64_t key, globalSize;
  int32_t b, h, g, t, s, d;
  int32_t causal, window;
  float scale, dropout;
  MaskKind maskKind;
  int32_t packed; ///< whether rows can be loaded 16 bytes at once
  int32_t factors;
  int32_t runsOfCounters; ///< whether dropout counters are consecutive along a row
  int64_t factorSizes[kMaxFactors], factorStrides[kMaxFactors];
};

} // namespace psrt::cuda

#endif
