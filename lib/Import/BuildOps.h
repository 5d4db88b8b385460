// Declares builders of exported ops that have several names, or that `.pt2` and ONNX share. Each
// function builds at the insertion point of `n`, and calls `n.fail` if the op cannot be built.
#ifndef PARASHARD_LIB_IMPORT_BUILDOPS_H
#define PARASHARD_LIB_IMPORT_BUILDOPS_H

#include "lib/Import/Build.h"
#include <optional>

namespace parashard::import {

//===----------------------------------------------------------------------===//
// Elementwise ops (BuildElementwise.cpp)
//===----------------------------------------------------------------------===//

/// Builds the elementwise maximum. For max(log(x), constant), the gradient is finite at x = 0.
mlir::Value buildMaximum(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);
/// Builds floor(lhs / rhs) for integers, from a division that rounds toward zero.
mlir::Value buildFloorDivision(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);
/// Builds x^exponent. Uses multiplications and square roots for the same exponents as PyTorch.
mlir::Value buildPower(TensorBuilder &n, mlir::Value x, double exponent);
/// Builds dropout. Returns x for p = 0.
mlir::Value buildDropout(TensorBuilder &n, mlir::Value x, double p, bool training);

//===----------------------------------------------------------------------===//
// Trigonometric and hyperbolic functions (BuildFunctions.cpp)
//===----------------------------------------------------------------------===//

mlir::Value buildTan(TensorBuilder &n, mlir::Value x);
/// Builds exp(|x| / 2)^2 (1 - exp(-2 |x|)) / 2 with the sign of x. Overflows only where sinh does.
mlir::Value buildSinh(TensorBuilder &n, mlir::Value x);
/// Builds 1 + 2 sinh(x / 2)^2, whose gradient does not cancel near 0.
mlir::Value buildCosh(TensorBuilder &n, mlir::Value x);
/// Builds log1p(|x| + x^2 / (1 + sqrt(1 + x^2))) with the sign of x.
mlir::Value buildAsinh(TensorBuilder &n, mlir::Value x);
/// Builds log1p(t + sqrt(t) sqrt(t + 2)) for t = x - 1.
mlir::Value buildAcosh(TensorBuilder &n, mlir::Value x);
/// Builds (log1p(x) - log1p(-x)) / 2.
mlir::Value buildAtanh(TensorBuilder &n, mlir::Value x);
/// Builds 2 atan(x / (1 + sqrt(1 - x^2))).
mlir::Value buildAsin(TensorBuilder &n, mlir::Value x);
/// Builds 2 atan(sqrt(1 - |x|) / sqrt(1 + |x|)). For a negative x, subtracts this angle from pi.
mlir::Value buildAcos(TensorBuilder &n, mlir::Value x);
/// Builds log(exp(lhs) + exp(rhs)) for operands of the same shape. The result is not NaN if
/// operands are infinite.
mlir::Value buildLogAddExp(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);

//===----------------------------------------------------------------------===//
// Matmuls (BuildContraction.cpp)
//===----------------------------------------------------------------------===//

/// Builds the matmul of x [..., in] and a weight [out, in] (`outFirst`) or [in, out], plus a bias
/// [out] (may be null).
mlir::Value buildLinear(TensorBuilder &n, mlir::Value x, mlir::Value weight, bool outFirst,
                        mlir::Value bias);
/// Builds NumPy's `matmul` of matrices [..., m, k] and [..., k, n], or of vectors.
mlir::Value buildMatmul(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);
/// Builds the matmul of [b, m, k] and [b, k, n].
mlir::Value buildBatchMatmul(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);

//===----------------------------------------------------------------------===//
// Data movement and reductions (BuildMovement.cpp)
//===----------------------------------------------------------------------===//

/// Pads each dim with `value`: `before` elements before and `after` elements after the dim.
/// Negative numbers remove elements.
mlir::Value buildPad(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> before,
                     llvm::ArrayRef<int64_t> after, double value);
/// Builds tril (predicate `Le`) or triu (`Ge`): keeps x where column <= row + diagonal (`Le`) or
/// column >= row + diagonal (`Ge`). All other elements become 0.
mlir::Value buildTriangle(TensorBuilder &n, mlir::Value x, int64_t diagonal,
                          ps::Predicate predicate);
/// Takes the elements at `indices` along `dim`, in this order, as concatenated slices. Fails if
/// more than 16 slices are needed.
mlir::Value takeInOrder(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> indices,
                        int64_t dim);
/// Returns `base` with `part` written at `starts`, with step `strides`.
mlir::Value writePart(TensorBuilder &n, mlir::Value base, mlir::Value part,
                      llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> strides);
/// Builds argmax or argmin along `dim`. In the result, `dim` has size 1. Returns the first index of
/// the extremum, or the index of the first NaN.
mlir::Value findExtremumIndex(TensorBuilder &n, mlir::Value x, int64_t dim, ps::ReductionKind kind);
/// Builds the product of the elements along a dim. In the result, the dim has size 1. Repeatedly
/// multiplies the two halves of the dim, so that the gradient is also correct for elements that are
/// 0.
mlir::Value buildProduct(TensorBuilder &n, mlir::Value x, int64_t dim);
/// Builds log(sum(exp(x))) over dims, and removes these dims. Takes the log-sum-exp from a
/// cross-entropy whose labels are all ignored.
mlir::Value buildLogSumExp(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> dims);
/// Builds the mean over dims. 16-bit floats are summed and divided in f32, as in PyTorch, because
/// their sum may overflow f16.
mlir::Value buildMean(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> dims,
                      bool keepsDims);
/// Builds the sum of all elements.
mlir::Value sumAll(TensorBuilder &n, mlir::Value value);

//===----------------------------------------------------------------------===//
// Indexing (BuildIndexing.cpp)
//===----------------------------------------------------------------------===//

/// Takes the rows of a table [rows, width] at `index`. `padding` (may be null) is the index of a
/// row that gets no gradient. With `wraps`, negative indices count from the end. Constant indices
/// that are out of range are errors. Computed indices that are out of range give rows of NaN.
mlir::Value buildRows(TensorBuilder &n, mlir::Value table, mlir::Value index,
                      mlir::IntegerAttr padding, bool wraps);
/// Builds x[i0, i1, ...]. Supports three cases: constant indices that form arithmetic progressions,
/// constant indices into a constant x, and lookups of the rows of a table x.
mlir::Value buildIndex(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<mlir::Value> indices);
/// Writes `updates` into x at [i0, i1, ...]. The indices must be constant progressions along
/// different dims.
mlir::Value buildIndexWrite(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<mlir::Value> indices,
                            mlir::Value updates);
/// Writes `updates` into x at the positions `index` [count] along `dim`. The positions must be a
/// constant progression, or one position that is known only at run time. A computed position that
/// is out of range gives NaN in all elements.
mlir::Value buildIndexCopy(TensorBuilder &n, mlir::Value x, mlir::Value index, mlir::Value updates,
                           int64_t dim);
/// Takes the elements of x at `index` [count] along `dim`.
mlir::Value buildSelect(TensorBuilder &n, mlir::Value x, mlir::Value index, int64_t dim);
/// Options of a cumulative sum. By default, result i is the sum of elements 0 to i.
struct RunningSum {
  bool reverse = false;   ///< sum from i to the last element
  bool exclusive = false; ///< without element i
};
/// Builds the cumulative sum along a dim, in the operand's type. Adds 16-bit floats in f32. Returns
/// a scalar unchanged.
mlir::Value buildRunningSum(TensorBuilder &n, mlir::Value x, int64_t dim,
                            const RunningSum &kind = {});
/// Builds torch.gather for an `index` of size 1 along `dim`. For a log_softmax, builds the
/// equivalent cross-entropy. Checks indices like `buildRows`.
mlir::Value buildGather(TensorBuilder &n, mlir::Value x, mlir::Value index, int64_t dim,
                        bool wraps);

//===----------------------------------------------------------------------===//
// Sorts (BuildSort.cpp)
//===----------------------------------------------------------------------===//

/// Sorted values, and the indices of these values along the sorted dim of the operand (i64).
struct Sorted {
  mlir::Value values, indices;
};
/// Sorts x along a dim with a stable sort. A scalar is sorted like a tensor with one dim of one
/// element.
Sorted buildSort(TensorBuilder &n, mlir::Value x, int64_t dim, bool descending);
/// Returns the `count` largest or smallest elements along a dim, in order. Of equal elements, takes
/// those with the lowest indices.
Sorted buildTopK(TensorBuilder &n, mlir::Value x, int64_t dim, int64_t count, bool largest);

//===----------------------------------------------------------------------===//
// Normalization (BuildNormalization.cpp)
//===----------------------------------------------------------------------===//

/// Returns the type for statistics of x: f64 if x is f64, else f32.
mlir::Type getStatisticsType(TensorBuilder &n, mlir::Value x);
/// Builds y * weight + bias. Weight and bias are aligned at the last dims, and may be null.
mlir::Value applyAffine(TensorBuilder &n, mlir::Value y, mlir::Value weight, mlir::Value bias);
/// Builds a layer norm over the last `numDims` dims, which are merged into one.
mlir::Value buildLayerNorm(TensorBuilder &n, mlir::Value x, int64_t numDims, double epsilon);
/// Builds x / sqrt(mean(x^2) + eps), in f32 for 16-bit floats as in PyTorch. The default of
/// `epsilon` is the machine epsilon of f32, or of f64 if x is f64.
mlir::Value buildRmsNorm(TensorBuilder &n, mlir::Value x, int64_t numDims,
                         std::optional<double> epsilon);
/// Builds softmax or log-softmax along `dim`. These ops only support the last dim, so `dim` and the
/// last dim are swapped before and after the op.
template <typename Op> mlir::Value buildAlongDim(TensorBuilder &n, mlir::Value x, int64_t dim) {
  return n.swapDims(n.make<Op>(n.swapDims(x, dim, -1)), dim, -1);
}

//===----------------------------------------------------------------------===//
// Norms over channels, which are dim 1 (BuildChannels.cpp)
//===----------------------------------------------------------------------===//

/// Builds y * weight + bias per channel, in y's element type. Weight and bias may be null.
mlir::Value applyToChannels(TensorBuilder &n, mlir::Value y, mlir::Value weight, mlir::Value bias);
/// Normalizes each of `groups` groups of channels, for each sample, without weights.
mlir::Value buildGroupNorm(TensorBuilder &n, mlir::Value x, int64_t groups, double epsilon);

/// Operands of a batch norm. Training uses batch statistics, and evaluation uses running
/// statistics. All operands except `input` may be null, but without `isTraining`, the running
/// statistics are required.
struct BatchNorm {
  mlir::Value input, weight, bias, runningMean, runningVariance;
  double epsilon = 1e-5;
  double momentum = 0.1; ///< weight of the batch in the new running statistics
  bool isTraining = false;
};
/// The result, and the new running statistics. The statistics are null in eval mode, and if the
/// norm has no running statistics.
struct BatchNormResult {
  mlir::Value result, runningMean, runningVariance;
};
BatchNormResult buildBatchNorm(TensorBuilder &n, const BatchNorm &norm);

//===----------------------------------------------------------------------===//
// Windows over spatial dims (BuildWindows.cpp)
//===----------------------------------------------------------------------===//

/// Windows over the spatial dims of a tensor [N, C, spatial...]. Each list has one entry per
/// spatial dim. Window p covers the elements p * stride + k * dilation - low for k in [0, kernel).
/// Elements outside of the tensor are zeros; max pooling ignores them.
struct SpaceWindows {
  llvm::SmallVector<int64_t> kernel, strides, low, dilation;
  llvm::SmallVector<int64_t> out; ///< number of windows
};

/// Builds a convolution of x [N, C, spatial...] with a weight [O, C / groups, kernel...]. The bias
/// [O] may be null. The number of groups follows from the shapes.
mlir::Value buildConvolution(TensorBuilder &n, mlir::Value x, mlir::Value weight, mlir::Value bias,
                             const SpaceWindows &windows);
/// Builds a transposed convolution. x [N, O, spatial...] has one element per window. The result [N,
/// channels, out...] has the elements that the windows cover. `windows.out` is the spatial shape of
/// the result.
mlir::Value buildTransposedConvolution(TensorBuilder &n, mlir::Value x, mlir::Value weight,
                                       mlir::Value bias, const SpaceWindows &windows,
                                       int64_t channels);
mlir::Value buildMaxPool(TensorBuilder &n, mlir::Value x, const SpaceWindows &windows);

/// The divisor of average pooling. If `divisor` is 0, each window is divided by its number of
/// elements. `includesPadding` determines whether elements in the padding are counted. With
/// ceil_mode, the last window may extend beyond the padding. Elements beyond the padding are never
/// counted.
struct AverageDivisor {
  llvm::SmallVector<int64_t> high; ///< padding after x, one entry per spatial dim
  bool includesPadding = true;
  double divisor = 0;
};
mlir::Value buildAveragePool(TensorBuilder &n, mlir::Value x, const SpaceWindows &windows,
                             const AverageDivisor &by);
/// Returns windows without padding or overlap that together cover each dim: `out[d]` windows along
/// spatial dim d. The size of the dim must be divisible by `out[d]`.
SpaceWindows tileSpace(mlir::Value x, llvm::ArrayRef<int64_t> out);

//===----------------------------------------------------------------------===//
// Interpolation (BuildInterpolation.cpp)
//===----------------------------------------------------------------------===//

/// Fails if a dim of size `in` cannot be resized to `out`.
bool checkResize(TensorBuilder &n, int64_t in, int64_t out);
/// Builds `out` elements along a dim. Each output element is a weighted sum of the input elements.
/// `fill` sets the weights for the output element `position`; `weights` initially contains zeros.
mlir::Value combineAlongDim(
    TensorBuilder &n, mlir::Value x, int64_t dim, int64_t out,
    llvm::function_ref<void(llvm::MutableArrayRef<double> weights, int64_t position)> fill);
/// Returns the index of the nearest input element for each output element p: floor(p * step), but
/// at most in - 1. As in PyTorch, computes in f32, and ignores `step` if `out` is `in` or 2 * `in`.
llvm::SmallVector<int64_t> findNearest(int64_t in, int64_t out, double step);
/// Takes the elements at `indices` along a dim. Builds a broadcast if each element is repeated
/// equally often ({0, 0, 1, 1}), else a lookup of the rows of a table.
mlir::Value resizeNearest(TensorBuilder &n, mlir::Value x, int64_t dim,
                          llvm::ArrayRef<int64_t> indices);
/// Interpolates linearly at `positions` along a dim. A position beyond an end gives the element at
/// this end.
mlir::Value resizeLinear(TensorBuilder &n, mlir::Value x, int64_t dim,
                         llvm::ArrayRef<double> positions);

//===----------------------------------------------------------------------===//
// Einsum and tensordot (BuildEinsum.cpp)
//===----------------------------------------------------------------------===//

/// Builds NumPy's einsum, such as "bhid,bhjd->bhij". Supports '...', repeated letters and equations
/// without an arrow.
mlir::Value buildEinsum(TensorBuilder &n, llvm::StringRef equation,
                        llvm::ArrayRef<mlir::Value> operands);
/// Builds torch.tensordot: sums over dims `lhsDims` of the left and `rhsDims` of the right operand.
/// The result has the other dims of the left operand, then the other dims of the right operand.
mlir::Value buildTensordot(TensorBuilder &n, mlir::Value lhs, llvm::ArrayRef<int64_t> lhsDims,
                           mlir::Value rhs, llvm::ArrayRef<int64_t> rhsDims);
/// Takes the elements whose indices along dims `first` and `second` are equal, and removes dim
/// `second`.
mlir::Value takeDiagonal(TensorBuilder &n, mlir::Value x, int64_t first, int64_t second);

//===----------------------------------------------------------------------===//
// Losses (BuildLoss.cpp)
//===----------------------------------------------------------------------===//

enum class LossReduction { None = 0, Mean = 1, Sum = 2 };

/// Operands of a cross-entropy. The classes are dim 1 of the logits (dim 0 for a single sample).
/// Labels are class indices (integers) or class probabilities (floats).
struct ClassLoss {
  mlir::Value logits, labels, weight; ///< weight: [classes], or null
  int64_t ignore = -100;
  double smoothing = 0;
  LossReduction reduction = LossReduction::Mean;
};
mlir::Value buildClassLoss(TensorBuilder &n, const ClassLoss &loss);

/// A negative log-likelihood loss. `counts` contains 1 (or the weight of the class) for each
/// counted label, and 0 for each ignored label. A mean divides by the sum of `counts`.
struct NllLoss {
  mlir::Value loss, counts;
};
NllLoss buildNllLoss(TensorBuilder &n, const ClassLoss &loss);
/// Builds gather(log_softmax(x), -1, index) as a negated cross-entropy. `index` is [..., 1]. If the
/// labels are `where(labels != ignore, labels, 0)`, the cross-entropy ignores the label `ignore`.
mlir::Value buildLabelGather(TensorBuilder &n, ps::LogSoftmaxOp softmax, mlir::Value index);

//===----------------------------------------------------------------------===//
// Attention (BuildAttention.cpp)
//===----------------------------------------------------------------------===//

/// Operands of attention, each [.., T, D]. The mask is null, bools (true: visible), or floats that
/// are added to the scores.
struct AttentionParts {
  mlir::Value query, key, value;
  mlir::Value mask = {};
  bool causal = false;
  double dropout = 0;
  std::optional<double> scale = std::nullopt; ///< default: 1 / sqrt(D)
};
mlir::Value buildAttention(TensorBuilder &n, const AttentionParts &parts);

} // namespace parashard::import

#endif
