// Ops that exported ops of several names, and of both kinds of file, become. Each builds at its
// builder's place; what it cannot build fails the builder's node.
#ifndef PARASHARD_LIB_IMPORT_BUILDOPS_H
#define PARASHARD_LIB_IMPORT_BUILDOPS_H

#include "lib/Import/Build.h"
#include <optional>

namespace parashard::import {

//===----------------------------------------------------------------------===//
// Elements (BuildElementwise.cpp)
//===----------------------------------------------------------------------===//

/// The larger one; of a logarithm and a constant, without an infinite slope in the branch not
/// taken.
mlir::Value buildMaximum(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);
/// floor(lhs / rhs) of integers, from a division that rounds toward zero.
mlir::Value buildFloorDivision(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);
/// x to an exponent that is known: products and roots where they are exact, as PyTorch does.
mlir::Value buildPower(TensorBuilder &n, mlir::Value x, double exponent);
/// Dropout with p = 0 is no op: nothing is drawn.
mlir::Value buildDropout(TensorBuilder &n, mlir::Value x, double p, bool training);

//===----------------------------------------------------------------------===//
// Products (BuildContraction.cpp)
//===----------------------------------------------------------------------===//

/// x [..., k] times a matrix whose dims are [out, in] or [in, out], plus a bias [out] (or null).
mlir::Value buildLinear(TensorBuilder &n, mlir::Value x, mlir::Value weight, bool outFirst,
                        mlir::Value bias);
/// Matrices [..., m, k] and [..., k, n], or vectors, as `matmul` of NumPy.
mlir::Value buildMatmul(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);
/// [b, m, k] times [b, k, n].
mlir::Value buildBatchMatmul(TensorBuilder &n, mlir::Value lhs, mlir::Value rhs);

//===----------------------------------------------------------------------===//
// Places and reductions (BuildMovement.cpp)
//===----------------------------------------------------------------------===//

/// `value` before and after each dim; negative amounts cut.
mlir::Value buildPad(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> before,
                     llvm::ArrayRef<int64_t> after, double value);
/// x where column <= row + diagonal (`Le`) or >= (`Ge`), 0 elsewhere.
mlir::Value buildTriangle(TensorBuilder &n, mlir::Value x, int64_t diagonal,
                          ps::Predicate predicate);
/// The places along `dim` in the order given: slices, one after another. Fails where they are many.
mlir::Value takeInOrder(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> places,
                        int64_t dim);
/// `base` with `part` in it: along each dim from `starts` on, at every `strides`th place.
mlir::Value writePart(TensorBuilder &n, mlir::Value base, mlir::Value part,
                      llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> strides);
/// Along `dim`, the first place of the extremum (of NaN, where there is one), which keeps its dim.
mlir::Value findPlace(TensorBuilder &n, mlir::Value x, int64_t dim, ps::ReductionKind kind);
/// The product along a dim, which keeps size 1: halves are multiplied, so that no gradient divides.
mlir::Value buildProduct(TensorBuilder &n, mlir::Value x, int64_t dim);
/// log(sum(exp(x))) over dims, which are left out: the part of a cross-entropy that no label asks
/// for.
mlir::Value buildLogSumExp(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> dims);
/// The mean over dims. Floats of 16 bits are added and divided in f32, as PyTorch does: their sum
/// may be too large for f16.
mlir::Value buildMean(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<int64_t> dims,
                      bool keepsDims);
/// The sum of all elements.
mlir::Value sumAll(TensorBuilder &n, mlir::Value value);

//===----------------------------------------------------------------------===//
// Indexing (BuildIndexing.cpp)
//===----------------------------------------------------------------------===//

/// The rows of a table [rows, width] at `index`. With `wraps`, negative indices count from the end.
/// Constant indices beyond the table are errors. Computed ones give rows of NaN, which end a run.
mlir::Value buildRows(TensorBuilder &n, mlir::Value table, mlir::Value index,
                      mlir::IntegerAttr padding, bool wraps);
/// x[i0, i1, ...]: constant progressions, elements of a constant, or rows of a table.
mlir::Value buildIndex(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<mlir::Value> indices);
/// x with `updates` at [i0, i1, ...]: constant progressions along dims of the indices, each along
/// another one.
mlir::Value buildIndexWrite(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<mlir::Value> indices,
                            mlir::Value updates);
/// x at the places `index` (of one dim) along `dim`.
mlir::Value buildSelect(TensorBuilder &n, mlir::Value x, mlir::Value index, int64_t dim);
/// Which elements along a dim a running sum has at a place: those up to it, or from it on.
struct RunningSum {
  bool reverse = false;
  bool exclusive = false; ///< without the place's own
};
/// The running sum along a dim, in the operand's type (of 16-bit floats, added in f32); exact for
/// integers. An operand without dims is its own sum.
mlir::Value buildRunningSum(TensorBuilder &n, mlir::Value x, int64_t dim,
                            const RunningSum &kind = {});
/// x at `index` along `dim`, one for each place along the other dims; of a log_softmax, the
/// cross-entropy that it is.
mlir::Value buildGather(TensorBuilder &n, mlir::Value x, mlir::Value index, int64_t dim);

//===----------------------------------------------------------------------===//
// Normalization (BuildNormalization.cpp)
//===----------------------------------------------------------------------===//

/// The type that statistics of x are computed in: at least f32.
mlir::Type getStatisticsType(TensorBuilder &n, mlir::Value x);
/// y * weight + bias, each aligned at the last dims; null ones are left out.
mlir::Value applyAffine(TensorBuilder &n, mlir::Value y, mlir::Value weight, mlir::Value bias);
/// Over the last `numDims` dims: several are read as one.
mlir::Value buildLayerNorm(TensorBuilder &n, mlir::Value x, int64_t numDims, double epsilon);
/// x / sqrt(mean(x^2) + eps), in f32 for smaller floats as PyTorch does; without an epsilon, the
/// least number of the type that it is computed in.
mlir::Value buildRmsNorm(TensorBuilder &n, mlir::Value x, int64_t numDims,
                         std::optional<double> epsilon);
/// An op over the last dim (softmax, log-softmax) along `dim`: swapped there and back.
template <typename Op> mlir::Value buildAlongDim(TensorBuilder &n, mlir::Value x, int64_t dim) {
  return n.swapDims(n.make<Op>(n.swapDims(x, dim, -1)), dim, -1);
}

//===----------------------------------------------------------------------===//
// Norms by channel, which stand in dim 1 (BuildChannels.cpp)
//===----------------------------------------------------------------------===//

/// y * weight + bias by channel, in y's element type; null ones are left out.
mlir::Value applyToChannels(TensorBuilder &n, mlir::Value y, mlir::Value weight, mlir::Value bias);
/// Each of `groups` groups of channels of each element of the batch, without weights.
mlir::Value buildGroupNorm(TensorBuilder &n, mlir::Value x, int64_t groups, double epsilon);

/// In training by the statistics of the batch, else by the running ones. Vectors over the channels
/// may be null.
struct BatchNorm {
  mlir::Value input, weight, bias, runningMean, runningVariance;
  double epsilon = 1e-5;
  double momentum = 0.1; ///< the share of the batch in the new running statistics
  bool isTraining = false;
};
/// The running statistics after this batch; null where none are kept, and in evaluation.
struct BatchNormResult {
  mlir::Value result, runningMean, runningVariance;
};
BatchNormResult buildBatchNorm(TensorBuilder &n, const BatchNorm &norm);

//===----------------------------------------------------------------------===//
// Windows over space (BuildWindows.cpp)
//===----------------------------------------------------------------------===//

/// Windows over the space dims of a tensor [N, C, space...]; each list has one entry a space dim.
/// Window p covers element p * stride + k * dilation - low for each k below `kernel`. Elements
/// beyond the tensor are zeros, or none (in a maximum).
struct SpaceWindows {
  llvm::SmallVector<int64_t> kernel, strides, low, dilation;
  llvm::SmallVector<int64_t> out; ///< how many windows
};

/// x [N, C, space...] with a weight [O, C / groups, kernel...]; the bias [O] may be null. The
/// number of groups follows from the shapes.
mlir::Value buildConvolution(TensorBuilder &n, mlir::Value x, mlir::Value weight, mlir::Value bias,
                             const SpaceWindows &windows);
/// A convolution's transpose: x [N, O, space...] has an element for each window, and the result
/// [N, channels, out...] those that the windows cover. `windows.out` are the result's sizes.
mlir::Value buildTransposedConvolution(TensorBuilder &n, mlir::Value x, mlir::Value weight,
                                       mlir::Value bias, const SpaceWindows &windows,
                                       int64_t channels);
mlir::Value buildMaxPool(TensorBuilder &n, mlir::Value x, const SpaceWindows &windows);

/// What the sum of a window is divided by: `divisor`, or where that is 0 the places that the window
/// has, with those of the padding or without. What lies behind the padding (a last window rounded
/// up) is no place.
struct AverageDivisor {
  llvm::SmallVector<int64_t> high; ///< zeros behind x, one entry a space dim
  bool includesPadding = true;
  double divisor = 0;
};
mlir::Value buildAveragePool(TensorBuilder &n, mlir::Value x, const SpaceWindows &windows,
                             const AverageDivisor &by);
/// Windows without padding that cover each dim once: `out` of them divide it.
SpaceWindows tileSpace(mlir::Value x, llvm::ArrayRef<int64_t> out);

//===----------------------------------------------------------------------===//
// Interpolation (BuildInterpolation.cpp)
//===----------------------------------------------------------------------===//

/// Fails where a dim of size `in` cannot be resized to `out`.
bool checkResize(TensorBuilder &n, int64_t in, int64_t out);
/// Each of `out` places along a dim as a sum of its elements; `fill` writes the weights of a place,
/// one for each element, which are zeros.
mlir::Value
mixDim(TensorBuilder &n, mlir::Value x, int64_t dim, int64_t out,
       llvm::function_ref<void(llvm::MutableArrayRef<double> weights, int64_t place)> fill);
/// The element nearest to each of `out` places, each `step` elements from the last, as PyTorch
/// finds it: in f32, and whatever the step where the sizes are equal or the double.
llvm::SmallVector<int64_t> findNearest(int64_t in, int64_t out, double step);
/// The elements at `places` along a dim: broadcasts where each is repeated, else rows of a table.
mlir::Value resizeNearest(TensorBuilder &n, mlir::Value x, int64_t dim,
                          llvm::ArrayRef<int64_t> places);
/// Between the two elements around each of `positions`; beyond the ends, those at the ends.
mlir::Value resizeLinear(TensorBuilder &n, mlir::Value x, int64_t dim,
                         llvm::ArrayRef<double> positions);

//===----------------------------------------------------------------------===//
// Products named by labels (BuildEinsum.cpp)
//===----------------------------------------------------------------------===//

/// "bhid,bhjd->bhij" of NumPy's einsum, with '...', repeated letters and without an arrow too.
mlir::Value buildEinsum(TensorBuilder &n, llvm::StringRef equation,
                        llvm::ArrayRef<mlir::Value> operands);
/// Sums over dims `lhsDims` of the left and `rhsDims` of the right; the other dims follow one
/// another.
mlir::Value buildTensordot(TensorBuilder &n, mlir::Value lhs, llvm::ArrayRef<int64_t> lhsDims,
                           mlir::Value rhs, llvm::ArrayRef<int64_t> rhsDims);
/// The elements whose places along dims `first` and `second` agree, without dim `second`.
mlir::Value takeDiagonal(TensorBuilder &n, mlir::Value x, int64_t first, int64_t second);

//===----------------------------------------------------------------------===//
// Losses (BuildLoss.cpp)
//===----------------------------------------------------------------------===//

enum class LossReduction { None = 0, Mean = 1, Sum = 2 };

/// A loss over classes, which stand in dim 1 of the logits. Labels are integers, or probabilities.
struct ClassLoss {
  mlir::Value logits, labels, weight; ///< weight: of the classes, or null
  int64_t ignore = -100;
  double smoothing = 0;
  LossReduction reduction = LossReduction::Mean;
};
mlir::Value buildClassLoss(TensorBuilder &n, const ClassLoss &loss);

/// Of `logits` that are log-probabilities; `counts` is what a mean divides the sum of.
struct NllLoss {
  mlir::Value loss, counts;
};
NllLoss buildNllLoss(TensorBuilder &n, const ClassLoss &loss);

//===----------------------------------------------------------------------===//
// Attention (BuildAttention.cpp)
//===----------------------------------------------------------------------===//

/// [.., T, D] each; the mask is null, bool or added.
struct AttentionParts {
  mlir::Value query, key, value;
  mlir::Value mask = {};
  bool causal = false;
  double dropout = 0;
  std::optional<double> scale = std::nullopt; ///< 1 / sqrt(D) when not given
};
mlir::Value buildAttention(TensorBuilder &n, const AttentionParts &parts);

} // namespace parashard::import

#endif
