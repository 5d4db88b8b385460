// Builds the `ps` ops of exported ops that have several names, or that `.pt2` and ONNX share. Each
// function builds at its builder's insertion point. If an op cannot be built, the builder's node
// fails.
#ifndef PARASHARD_LIB_IMPORT_BUILDOPS_H
#define PARASHARD_LIB_IMPORT_BUILDOPS_H

#include "lib/Import/Build.h"
#include <optional>

namespace parashard::import {

//===----------------------------------------------------------------------===//
// Elementwise ops (BuildElementwise.cpp)
//===----------------------------------------------------------------------===//

/// Builds the maximum. For a logarithm and a constant, avoids an infinite slope in the branch that
/// is not taken.
mlir::Value buildMaximum(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);
/// Builds floor(lhs / rhs) for integers, from a division that rounds toward zero.
mlir::Value buildFloorDivision(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);
/// Builds x raised to a constant exponent. Uses multiplications and square roots for exponents
/// where PyTorch does so.
mlir::Value buildPower(TensorBuilder &n, mlir::Value x, double exponent);
/// Builds dropout. With p = 0 there is no op, and no random numbers are drawn.
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
/// Builds 2 atan(sqrt(1 - x) / sqrt(1 + x)), from |x| and pi for a negative x.
mlir::Value buildAcos(TensorBuilder &n, mlir::Value x);
/// Builds log(exp(lhs) + exp(rhs)) of operands of one shape. An infinite operand gives no NaN.
mlir::Value buildLogAddExp(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);

//===----------------------------------------------------------------------===//
// Matmuls (BuildContraction.cpp)
//===----------------------------------------------------------------------===//

/// Builds x [..., k] times a matrix [out, in] or [in, out], plus a bias [out] (may be null).
mlir::Value buildLinear(TensorBuilder &n, mlir::Value x, mlir::Value weight, bool outFirst,
                        mlir::Value bias);
/// Builds NumPy's `matmul` of matrices [..., m, k] and [..., k, n], or of vectors.
mlir::Value buildMatmul(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);
/// Builds [b, m, k] times [b, k, n].
mlir::Value buildBatchMatmul(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);

//===----------------------------------------------------------------------===//
// Data movement and reductions (BuildMovement.cpp)
//===----------------------------------------------------------------------===//

/// Adds `value` before and after each dim. Negative amounts cut elements off.
mlir::Value buildPad(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> before,
                     llvm::ArrayRef<int64_t> after, double value);
/// Keeps x where column <= row + diagonal (`Le`) or >= (`Ge`), and returns 0 elsewhere.
mlir::Value buildTriangle(TensorBuilder &n, mlir::Value x, int64_t diagonal,
                          ps::Predicate predicate);
/// Takes the elements at `indices` along `dim`, in this order, as concatenated slices. Fails if
/// that needs too many slices.
mlir::Value takeInOrder(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> indices,
                        int64_t dim);
/// Writes `part` into `base`: along each dim from `starts` on, with step `strides`.
mlir::Value writePart(TensorBuilder &n, mlir::Value base, mlir::Value part,
                      llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> strides);
/// Returns the first index of the extremum along `dim` (of a NaN, if there is one). Keeps the dim.
mlir::Value findExtremumIndex(TensorBuilder &n, mlir::Value x, int64_t dim, ps::ReductionKind kind);
/// Builds the product of the elements along a dim; the dim keeps size 1. Multiplies the two halves
/// of the dim repeatedly, so that the gradient needs no division (an element may be 0).
mlir::Value buildProduct(TensorBuilder &n, mlir::Value x, int64_t dim);
/// Builds log(sum(exp(x))) over dims, which are removed. Uses the log-sum-exp of a cross-entropy
/// whose labels are all ignored.
mlir::Value buildLogSumExp(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> dims);
/// Builds the mean over dims. 16-bit floats are added and divided in f32, as in PyTorch, because
/// their sum may be too large for f16.
mlir::Value buildMean(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> dims,
                      bool keepsDims);
/// Builds the sum of all elements.
mlir::Value sumAll(TensorBuilder &n, mlir::Value value);

//===----------------------------------------------------------------------===//
// Indexing (BuildIndexing.cpp)
//===----------------------------------------------------------------------===//

/// Takes the rows of a table [rows, width] at `index`. With `wraps`, negative indices count from
/// the end. Constant indices out of range are errors. Computed ones give rows of NaN, which end a
/// run.
mlir::Value buildRows(TensorBuilder &n, mlir::Value table, mlir::Value index,
                      mlir::IntegerAttr padding, bool wraps);
/// Builds x[i0, i1, ...]. Supports constant indices that form arithmetic progressions, constant x,
/// and lookups of rows of a table.
mlir::Value buildIndex(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<mlir::Value> indices);
/// Writes `updates` into x at [i0, i1, ...]. The indices must be constant progressions along
/// different dims.
mlir::Value buildIndexWrite(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<mlir::Value> indices,
                            mlir::Value updates);
/// Takes the elements of x at `index` (of one dim) along `dim`.
mlir::Value buildSelect(TensorBuilder &n, mlir::Value x, mlir::Value index, int64_t dim);
/// The elements that a running sum adds at an index: those up to the index, or from the index on.
struct RunningSum {
  bool reverse = false;
  bool exclusive = false; ///< without the element at the index
};
/// Builds the running sum along a dim, in the operand's type. Adds 16-bit floats in f32; is exact
/// for integers. A scalar is its own sum.
mlir::Value buildRunningSum(TensorBuilder &n, mlir::Value x, int64_t dim,
                            const RunningSum &kind = {});
/// Gathers from x at `index` along `dim`, one index per element of the other dims. For a
/// log_softmax, builds the equivalent cross-entropy. Indices are checked as those of `buildRows`;
/// computed ones out of range give NaN.
mlir::Value buildGather(TensorBuilder &n, mlir::Value x, mlir::Value index, int64_t dim,
                        bool wraps);

//===----------------------------------------------------------------------===//
// Sorts (BuildSort.cpp)
//===----------------------------------------------------------------------===//

/// Values, and their positions along the sorted dim of the operand (i64).
struct Sorted {
  mlir::Value values, indices;
};
/// Sorts x along a dim, stably. A scalar is a tensor with one dim of one element.
Sorted buildSort(TensorBuilder &n, mlir::Value x, int64_t dim, bool descending);
/// Returns the `count` largest or smallest elements along a dim, in order. Of equal elements, takes
/// those with the lowest indices.
Sorted buildTopK(TensorBuilder &n, mlir::Value x, int64_t dim, int64_t count, bool largest);

//===----------------------------------------------------------------------===//
// Normalization (BuildNormalization.cpp)
//===----------------------------------------------------------------------===//

/// Returns the type for statistics of x: f32, or f64 for f64.
mlir::Type getStatisticsType(TensorBuilder &n, mlir::Value x);
/// Builds y * weight + bias, both aligned at the last dims; either may be null.
mlir::Value applyAffine(TensorBuilder &n, mlir::Value y, mlir::Value weight, mlir::Value bias);
/// Builds a layer norm over the last `numDims` dims, which are merged into one.
mlir::Value buildLayerNorm(TensorBuilder &n, mlir::Value x, int64_t numDims, double epsilon);
/// Builds x / sqrt(mean(x^2) + eps), in f32 for smaller floats as in PyTorch. The default epsilon
/// is that of the type of the computation.
mlir::Value buildRmsNorm(TensorBuilder &n, mlir::Value x, int64_t numDims,
                         std::optional<double> epsilon);
/// Builds an op over the last dim (softmax, log-softmax) along `dim`, by swapping dims before and
/// after.
template <typename Op> mlir::Value buildAlongDim(TensorBuilder &n, mlir::Value x, int64_t dim) {
  return n.swapDims(n.make<Op>(n.swapDims(x, dim, -1)), dim, -1);
}

//===----------------------------------------------------------------------===//
// Norms over channels, which are dim 1 (BuildChannels.cpp)
//===----------------------------------------------------------------------===//

/// Builds y * weight + bias per channel, in y's element type; either may be null.
mlir::Value applyToChannels(TensorBuilder &n, mlir::Value y, mlir::Value weight, mlir::Value bias);
/// Normalizes each of `groups` groups of channels, for each sample, without weights.
mlir::Value buildGroupNorm(TensorBuilder &n, mlir::Value x, int64_t groups, double epsilon);

/// Operands of a batch norm. Training uses the statistics of the batch, evaluation the running
/// ones. Vectors over the channels may be null.
struct BatchNorm {
  mlir::Value input, weight, bias, runningMean, runningVariance;
  double epsilon = 1e-5;
  double momentum = 0.1; ///< weight of the batch in the new running statistics
  bool isTraining = false;
};
/// The result, and the running statistics after this batch. These are null in evaluation, and
/// without running statistics.
struct BatchNormResult {
  mlir::Value result, runningMean, runningVariance;
};
BatchNormResult buildBatchNorm(TensorBuilder &n, const BatchNorm &norm);

//===----------------------------------------------------------------------===//
// Windows over space (BuildWindows.cpp)
//===----------------------------------------------------------------------===//

/// Windows over the space dims of a tensor [N, C, space...]; each list has one entry per space dim.
/// Window p covers element p * stride + k * dilation - low for each k below `kernel`. Elements
/// outside of the tensor are zeros (a maximum ignores them).
struct SpaceWindows {
  llvm::SmallVector<int64_t> kernel, strides, low, dilation;
  llvm::SmallVector<int64_t> out; ///< number of windows
};

/// Builds a convolution of x [N, C, space...] with a weight [O, C / groups, kernel...]; the bias
/// [O] may be null. The number of groups follows from the shapes.
mlir::Value buildConvolution(TensorBuilder &n, mlir::Value x, mlir::Value weight, mlir::Value bias,
                             const SpaceWindows &windows);
/// Builds the transpose of a convolution. x [N, O, space...] has one element per window. The result
/// [N, channels, out...] has the elements that the windows cover. `windows.out` are the result's
/// sizes.
mlir::Value buildTransposedConvolution(TensorBuilder &n, mlir::Value x, mlir::Value weight,
                                       mlir::Value bias, const SpaceWindows &windows,
                                       int64_t channels);
mlir::Value buildMaxPool(TensorBuilder &n, mlir::Value x, const SpaceWindows &windows);

/// The divisor of a window's sum: `divisor`, or if that is 0 the number of elements in the window,
/// with or without padding. Elements after the padding (in a last window that is rounded up) do not
/// count.
struct AverageDivisor {
  llvm::SmallVector<int64_t> high; ///< zeros after x, one entry per space dim
  bool includesPadding = true;
  double divisor = 0;
};
mlir::Value buildAveragePool(TensorBuilder &n, mlir::Value x, const SpaceWindows &windows,
                             const AverageDivisor &by);
/// Returns `out` windows per dim that cover the dim without padding or overlap. `out` must divide
/// the size of the dim.
SpaceWindows tileSpace(mlir::Value x, llvm::ArrayRef<int64_t> out);

//===----------------------------------------------------------------------===//
// Interpolation (BuildInterpolation.cpp)
//===----------------------------------------------------------------------===//

/// Fails if a dim of size `in` cannot be resized to `out`.
bool checkResize(TensorBuilder &n, int64_t in, int64_t out);
/// Builds `out` elements along a dim, each a weighted sum of the present elements. `fill` sets the
/// weights of all present elements for output element `position`; its array starts with zeros.
mlir::Value combineAlongDim(
    TensorBuilder &n, mlir::Value x, int64_t dim, int64_t out,
    llvm::function_ref<void(llvm::MutableArrayRef<double> weights, int64_t position)> fill);
/// Returns the element nearest to each of `out` positions, which are `step` elements apart. Follows
/// PyTorch: computes in f32, and ignores the step if the sizes are equal or `out` is 2 * `in`.
llvm::SmallVector<int64_t> findNearest(int64_t in, int64_t out, double step);
/// Takes the elements at `indices` along a dim. Builds a broadcast if each element is repeated
/// equally often ({0, 0, 1, 1}), else a lookup of table rows.
mlir::Value resizeNearest(TensorBuilder &n, mlir::Value x, int64_t dim,
                          llvm::ArrayRef<int64_t> indices);
/// Interpolates linearly at `positions` along a dim. Positions beyond the ends give the end
/// elements.
mlir::Value resizeLinear(TensorBuilder &n, mlir::Value x, int64_t dim,
                         llvm::ArrayRef<double> positions);

//===----------------------------------------------------------------------===//
// Contractions named by labels (BuildEinsum.cpp)
//===----------------------------------------------------------------------===//

/// Builds NumPy's einsum, such as "bhid,bhjd->bhij". Supports '...', repeated letters and no arrow.
mlir::Value buildEinsum(TensorBuilder &n, llvm::StringRef equation,
                        llvm::ArrayRef<mlir::Value> operands);
/// Sums over dims `lhsDims` of the left and `rhsDims` of the right operand. The result has the
/// other dims of the left operand, then those of the right.
mlir::Value buildTensordot(TensorBuilder &n, mlir::Value lhs, llvm::ArrayRef<int64_t> lhsDims,
                           mlir::Value rhs, llvm::ArrayRef<int64_t> rhsDims);
/// Takes the elements whose indices along dims `first` and `second` are equal, without dim
/// `second`.
mlir::Value takeDiagonal(TensorBuilder &n, mlir::Value x, int64_t first, int64_t second);

//===----------------------------------------------------------------------===//
// Losses (BuildLoss.cpp)
//===----------------------------------------------------------------------===//

enum class LossReduction { None = 0, Mean = 1, Sum = 2 };

/// A loss over classes, which are dim 1 of the logits. Labels are integers, or probabilities.
struct ClassLoss {
  mlir::Value logits, labels, weight; ///< weight: one per class, or null
  int64_t ignore = -100;
  double smoothing = 0;
  LossReduction reduction = LossReduction::Mean;
};
mlir::Value buildClassLoss(TensorBuilder &n, const ClassLoss &loss);

/// The loss of log-probabilities. A mean divides by the sum of `counts`.
struct NllLoss {
  mlir::Value loss, counts;
};
NllLoss buildNllLoss(TensorBuilder &n, const ClassLoss &loss);
/// Builds gather(log_softmax(x), -1, index) as the negated cross-entropy. `index` is [..., 1].
/// Labels that `where(labels != ignore, labels, 0)` replaces are ignored.
mlir::Value buildLabelGather(TensorBuilder &n, ps::LogSoftmaxOp softmax, mlir::Value index);

//===----------------------------------------------------------------------===//
// Attention (BuildAttention.cpp)
//===----------------------------------------------------------------------===//

/// Operands of attention, each [.., T, D]. The mask is null, a bool, or added.
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
