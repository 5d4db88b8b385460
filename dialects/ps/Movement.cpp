// Implements ops that only move elements: reshape, transpose and broadcast.
#include "dialects/ps/FoldSupport.h"
#include "shared/Counts.h"

#include "mlir/IR/PatternMatch.h"
#include <numeric>

using namespace mlir;
using namespace parashard::ps;

/// Returns a tensor of `type` whose element at index i is `from[source(i)]`. A source of -1 gives a
/// zero.
static Tensor gatherElements(RankedTensorType type, const Tensor &from,
                             llvm::function_ref<int64_t(ArrayRef<int64_t>)> source) {
  Tensor result(type);
  for (int64_t i = 0; i < result.size(); ++i) {
    int64_t index = source(result.delinearize(i));
    if (index < 0)
      continue;
    if (result.isFloat())
      result.set(i, from.get(index));
    else
      result.setInt(i, from.getInt(index));
  }
  return result;
}

static llvm::SmallVector<Value> one(Value value) { return llvm::SmallVector<Value>{value}; }

//===----------------------------------------------------------------------===//
// reshape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = getTensorType(getOperand()), to = getTensorType(getResult());
  if (from.getNumElements() != to.getNumElements() || from.getElementType() != to.getElementType())
    return emitOpError() << "operand " << from << " has "
                         << describeCount(from.getNumElements(), "element") << ", result " << to
                         << " has " << to.getNumElements() << " (reshape_c1)";
  return success();
}

namespace {
/// Finds the common factors of two shapes with the same number of elements. Example: [6, 4] and [3,
/// 8] give, from minor to major, the factors 4 (of 4 and 8), 2 (of 6 and 8) and 3 (of 6 and 3).
class FactorMatcher {
public:
  FactorMatcher(ShardingRule &rule, ArrayRef<int64_t> from, ArrayRef<int64_t> to)
      : rule(rule), left(from), right(to), leftFactors(from.size()), rightFactors(to.size()) {}

  /// Visits the dims of both shapes from the last to the first. The greatest common divisor of the
  /// current dims becomes a factor.
  void run() {
    if (llvm::is_contained(left, 0)) {
      takeWhole(left, left, leftFactors, 0, i);
      takeWhole(right, right, rightFactors, 0, j);
      return;
    }
    while (skipOnes(left, i) && skipOnes(right, j)) {
      int64_t common = std::gcd(left[i], right[j]);
      if (common == 1) {
        matchStretch();
        continue;
      }
      unsigned factor = rule.addFactor(common);
      take(left, leftFactors, i, common, factor);
      take(right, rightFactors, j, common, factor);
    }
  }

  TensorFactors getLeft() const { return leftFactors; }
  TensorFactors getRight() const { return rightFactors; }

private:
  /// Moves `at` to the next dim with a remaining size above 1. Returns false at the end.
  static bool skipOnes(ArrayRef<int64_t> rests, int64_t &at) {
    while (at >= 0 && rests[at] == 1)
      --at;
    return at >= 0;
  }

  static void take(SmallVector<int64_t> &rests, TensorFactors &factors, int64_t dim, int64_t size,
                   unsigned factor) {
    rests[dim] /= size;
    factors[dim].insert(factors[dim].begin(), factor);
  }

  /// Handles current dims without a common divisor, together with the dims before them up to the
  /// point where the products of sizes are equal. Only common divisors at the major end of these
  /// dims may be sharded. Example: the last dims of [4, 3] and [6, 2] have no common divisor, but 4
  /// x 3 = 6 x 2. Only the common divisor 2 of 4 and 6 may be sharded.
  void matchStretch() {
    int64_t leftEnd = i, rightEnd = j, leftProduct = left[i], rightProduct = right[j];
    while (leftProduct != rightProduct) {
      if (leftProduct < rightProduct)
        leftProduct *= left[--leftEnd];
      else
        rightProduct *= right[--rightEnd];
    }
    struct Major {
      int64_t leftDim, rightDim, size;
    };
    SmallVector<Major> majors;
    SmallVector<int64_t> leftRest(left), rightRest(right);
    for (int64_t l = leftEnd, r = rightEnd; l <= i && r <= j;) {
      int64_t common = std::gcd(leftRest[l], rightRest[r]);
      if (common > 1)
        majors.push_back({l, r, common});
      leftRest[l] /= common;
      rightRest[r] /= common;
      if (leftRest[l] != 1 && rightRest[r] != 1)
        break;
      l += leftRest[l] == 1;
      r += rightRest[r] == 1;
    }
    takeWhole(left, leftRest, leftFactors, leftEnd, i);
    takeWhole(right, rightRest, rightFactors, rightEnd, j);
    for (const Major &major : llvm::reverse(majors)) {
      unsigned factor = rule.addFactor(major.size);
      take(left, leftFactors, major.leftDim, major.size, factor);
      take(right, rightFactors, major.rightDim, major.size, factor);
    }
  }

  void takeWhole(SmallVector<int64_t> &rests, SmallVector<int64_t> sizes, TensorFactors &factors,
                 int64_t begin, int64_t end) {
    for (int64_t dim = end; dim >= begin; --dim)
      if (sizes[dim] == 0)
        factors[dim] = {rule.addWhole(0, "the tensor has no elements")};
      else if (sizes[dim] > 1)
        take(rests, factors, dim, sizes[dim],
             rule.addWhole(sizes[dim], "reshape mixes dims whose sizes have no common divisor"));
  }

  ShardingRule &rule;
  SmallVector<int64_t> left, right; ///< size of each dim, divided by the factors found so far
  TensorFactors leftFactors, rightFactors;
  int64_t i = int64_t(left.size()) - 1, j = int64_t(right.size()) - 1;
};
} // namespace

ShardingRule ReshapeOp::getShardingRule() {
  ShardingRule rule;
  FactorMatcher matcher(rule, getTensorType(getOperand()).getShape(),
                        getTensorType(getResult()).getShape());
  matcher.run();
  rule.operands = {matcher.getLeft()};
  rule.results = {matcher.getRight()};
  rule.linear = {{0}};
  return rule;
}

LoweringKind ReshapeOp::getLoweringKind() { return LoweringKind::Movement; }

FailureOr<llvm::SmallVector<Tensor>> ReshapeOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                         const EvaluateContext &) {
  return llvm::SmallVector<Tensor>{operands[0].reshaped(getTensorType(getResult()))};
}

FailureOr<llvm::SmallVector<Value>> ReshapeOp::differentiate(BackwardBuilder &builder,
                                                             ValueRange cotangents) {
  return one(builder.make<ReshapeOp>(getOperand().getType(), cotangents[0]));
}

FailureOr<llvm::SmallVector<Value>>
ReshapeOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  return one(builder.make<ReshapeOp>(localResults[0], locals[0]));
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto dense = dyn_cast_if_present<DenseElementsAttr>(adaptor.getOperand()))
    return dense.reshape(cast<ShapedType>(getType()));
  return {};
}

namespace {
/// Merges reshape(reshape(x)) into one reshape.
struct MergeReshapes : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<ReshapeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "operand is not a reshape");
    rewriter.modifyOpInPlace(op, [&] { op.getOperandMutable().assign(inner.getOperand()); });
    return success();
  }
};
} // namespace

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MergeReshapes>(context);
}

//===----------------------------------------------------------------------===//
// transpose
//===----------------------------------------------------------------------===//

static RankedTensorType permute(RankedTensorType type, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t d : permutation)
    shape.push_back(type.getDimSize(d));
  return type.clone(shape);
}

static SmallVector<int64_t> invert(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [i, d] : llvm::enumerate(permutation))
    inverse[d] = i;
  return inverse;
}

void TransposeOp::build(OpBuilder &builder, OperationState &state, Value operand,
                        ArrayRef<int64_t> permutation) {
  build(builder, state, permute(getTensorType(operand), permutation), operand, permutation);
}

LogicalResult TransposeOp::verify() {
  RankedTensorType type = getTensorType(getOperand());
  SmallVector<int64_t> sorted(getPermutation());
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, type.getRank())))
    return emitOpError() << "[" << getPermutation() << "] is not a permutation of the dims of "
                         << type << " (transpose_c1)";
  RankedTensorType expected = permute(type, getPermutation());
  if (expected != getType())
    return emitOpError() << "has a result of type " << getType() << ", expected " << expected
                         << " (transpose_c2)";
  return success();
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getTensorType(getOperand()).getShape(), 1, 1);
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    rule.results[0][i] = rule.operands[0][d];
  rule.linear = {{0}};
  return rule;
}

LoweringKind TransposeOp::getLoweringKind() { return LoweringKind::Movement; }

FailureOr<llvm::SmallVector<Tensor>> TransposeOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                           const EvaluateContext &) {
  SmallVector<int64_t> source(getPermutation().size());
  return llvm::SmallVector<Tensor>{
      gatherElements(getTensorType(getResult()), operands[0], [&](ArrayRef<int64_t> index) {
        for (auto [i, d] : llvm::enumerate(getPermutation()))
          source[d] = index[i];
        return operands[0].linearize(source);
      })};
}

FailureOr<llvm::SmallVector<Value>> TransposeOp::differentiate(BackwardBuilder &builder,
                                                               ValueRange cotangents) {
  return one(builder.make<TransposeOp>(cotangents[0], invert(getPermutation())));
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getPermutation().size())))
    return getOperand();
  return foldMovement(*this, adaptor.getOperands().take_front(1));
}

namespace {
/// Merges transpose(transpose(x)) into one transpose.
struct MergeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<TransposeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "operand is not a transpose");
    SmallVector<int64_t> permutation;
    for (int64_t d : op.getPermutation())
      permutation.push_back(inner.getPermutation()[d]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, inner.getOperand(), permutation);
    return success();
  }
};
} // namespace

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MergeTransposes>(context);
}

//===----------------------------------------------------------------------===//
// broadcast
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = getTensorType(getOperand()), to = getTensorType(getResult());
  int64_t before = -1;
  bool increasing = int64_t(getDims().size()) == from.getRank();
  for (int64_t dim : getDims()) {
    increasing &= dim > before && dim < to.getRank();
    before = dim;
  }
  if (!increasing)
    return emitOpError() << "dims [" << getDims() << "] are not increasing dims of " << to
                         << ", one for each dim of " << from << " (broadcast_c1)";
  for (auto [d, dim] : llvm::enumerate(getDims()))
    if (from.getDimSize(d) != to.getDimSize(dim))
      return emitOpError() << "operand dim " << d << " has size " << from.getDimSize(d)
                           << ", result dim " << dim << " has " << to.getDimSize(dim)
                           << " (broadcast_c2)";
  return success();
}

ShardingRule BroadcastOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getTensorType(getResult()).getShape(), 1, 1);
  TensorFactors operand;
  for (int64_t dim : getDims())
    operand.push_back(rule.results[0][dim]);
  rule.operands = {operand};
  rule.linear = {{0}};
  return rule;
}

LoweringKind BroadcastOp::getLoweringKind() { return LoweringKind::Movement; }

FailureOr<llvm::SmallVector<Tensor>> BroadcastOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                           const EvaluateContext &) {
  SmallVector<int64_t> source(getDims().size());
  return llvm::SmallVector<Tensor>{
      gatherElements(getTensorType(getResult()), operands[0], [&](ArrayRef<int64_t> index) {
        for (auto [d, dim] : llvm::enumerate(getDims()))
          source[d] = index[dim];
        return operands[0].linearize(source);
      })};
}

FailureOr<llvm::SmallVector<Value>> BroadcastOp::differentiate(BackwardBuilder &builder,
                                                               ValueRange cotangents) {
  SmallVector<int64_t> added;
  for (int64_t d = 0; d < getTensorType(getResult()).getRank(); ++d)
    if (!llvm::is_contained(getDims(), d))
      added.push_back(d);
  if (added.empty())
    return one(cotangents[0]);
  return one(builder.make<ReduceOp>(ReductionKind::Sum, cotangents[0], added));
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  auto dense = dyn_cast_if_present<DenseElementsAttr>(adaptor.getOperand());
  if (dense && dense.isSplat())
    return dense.resizeSplat(cast<ShapedType>(getType()));
  return {};
}

namespace {
/// Merges broadcast(broadcast(x)) into one broadcast.
struct MergeBroadcasts : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<BroadcastOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "operand is not a broadcast");
    SmallVector<int64_t> dims;
    for (int64_t dim : inner.getDims())
      dims.push_back(op.getDims()[dim]);
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), inner.getOperand(), dims);
    return success();
  }
};
} // namespace

void BroadcastOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MergeBroadcasts>(context);
}
