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
/// Along `dim`, the first place of the extremum (of NaN, where there is one), which keeps its dim.
mlir::Value findPlace(TensorBuilder &n, mlir::Value x, int64_t dim, ps::ReductionKind kind);
/// The product along a dim, which keeps size 1: halves are multiplied, so that no gradient divides.
mlir::Value buildProduct(TensorBuilder &n, mlir::Value x, int64_t dim);
/// The sum of all elements.
mlir::Value sumAll(TensorBuilder &n, mlir::Value value);

//===----------------------------------------------------------------------===//
// Indexing (BuildIndexing.cpp)
//===----------------------------------------------------------------------===//

/// x[i0, i1, ...]: constant progressions, elements of a constant, or rows of a table.
mlir::Value buildIndex(TensorBuilder &n, mlir::Value x, llvm::ArrayRef<mlir::Value> indices);
/// x at the places `index` (of one dim) along `dim`.
mlir::Value buildSelect(TensorBuilder &n, mlir::Value x, mlir::Value index, int64_t dim);
/// The running sum along a dim of what is known at import.
mlir::Value buildRunningSum(TensorBuilder &n, mlir::Value x, int64_t dim);
/// x at `index` along `dim`, one for each place along the other dims; of a log_softmax, the
/// cross-entropy that it is.
mlir::Value buildGather(TensorBuilder &n, mlir::Value x, mlir::Value index, int64_t dim);

//===----------------------------------------------------------------------===//
// Normalization (BuildNormalization.cpp)
//===----------------------------------------------------------------------===//

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
