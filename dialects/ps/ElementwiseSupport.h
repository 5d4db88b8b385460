// Declares helpers of the elementwise ops: loops over host tensors, arithmetic for derivatives, and
// code for 16-bit floats.
#ifndef PARASHARD_DIALECTS_PS_ELEMENTWISESUPPORT_H
#define PARASHARD_DIALECTS_PS_ELEMENTWISESUPPORT_H

#include "dialects/ps/RowSupport.h"

namespace parashard::ps {

/// Returns a rule with one parallel factor per dim, and with `linear` as its
/// `ShardingRule::linear`.
template <typename Op>
ShardingRule elementwiseRule(Op op, llvm::ArrayRef<llvm::SmallVector<unsigned, 2>> linear = {}) {
  auto type = llvm::cast<mlir::RankedTensorType>(op->getResult(0).getType());
  ShardingRule rule = ShardingRule::elementwise(type.getShape(), op->getNumOperands(), 1);
  rule.linear.assign(linear.begin(), linear.end());
  return rule;
}

/// Returns the op's only result. Its element i is `element(i)`, a double or an int64.
template <typename Fn> llvm::SmallVector<Tensor> mapElements(mlir::Operation *op, Fn element) {
  Tensor result(llvm::cast<mlir::RankedTensorType>(op->getResult(0).getType()));
  for (int64_t i = 0, n = result.size(); i < n; ++i) {
    auto value = element(i);
    if constexpr (std::is_same_v<decltype(value), double>)
      result.set(i, value);
    else
      result.setInt(i, value);
  }
  llvm::SmallVector<Tensor> results;
  results.push_back(std::move(result));
  return results;
}

/// Builds arithmetic ops on values of one type, for derivatives.
class BackwardMath {
public:
  explicit BackwardMath(BackwardBuilder &builder) : builder(builder) {}

  mlir::Value constant(mlir::Value like, double value) {
    return builder.make<ConstantOp>(llvm::cast<mlir::RankedTensorType>(like.getType()), value);
  }
  template <typename Op> mlir::Value unary(mlir::Value x) {
    return builder.make<Op>(x.getType(), x);
  }
  template <typename Op> mlir::Value binary(mlir::Value x, mlir::Value y) {
    return builder.make<Op>(x.getType(), x, y);
  }
  mlir::Value neg(mlir::Value x) { return unary<NegOp>(x); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return binary<AddOp>(x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return binary<SubOp>(x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return binary<MulOp>(x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return binary<DivOp>(x, y); }
  mlir::Value scale(mlir::Value x, double factor) { return mul(x, constant(x, factor)); }
  mlir::Value compare(Predicate predicate, mlir::Value x, mlir::Value y) {
    auto shape = llvm::cast<mlir::RankedTensorType>(x.getType()).getShape();
    return builder.make<CompareOp>(mlir::RankedTensorType::get(shape, builder.getI1Type()),
                                   predicate, x, y);
  }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return builder.make<SelectOp>(x.getType(), condition, x, y);
  }

private:
  BackwardBuilder &builder;
};

/// Differentiates a unary op. If the result has a cotangent g and the operand's cotangent is
/// needed, returns `derive(math, g)` as the operand's cotangent.
template <typename Fn>
llvm::SmallVector<mlir::Value> differentiateUnary(BackwardBuilder &builder,
                                                  mlir::ValueRange cotangents, Fn derive) {
  llvm::SmallVector<mlir::Value> results(1);
  BackwardMath math(builder);
  if (cotangents[0] && builder.needs(0))
    results[0] = derive(math, cotangents[0]);
  return results;
}

/// Differentiates a binary op. `left` and `right` return the cotangents of the operands, like
/// `derive` of `differentiateUnary`.
template <typename Left, typename Right>
llvm::SmallVector<mlir::Value>
differentiateBinary(BackwardBuilder &builder, mlir::ValueRange cotangents, Left left, Right right) {
  llvm::SmallVector<mlir::Value> results(2);
  BackwardMath math(builder);
  if (cotangents[0] && builder.needs(0))
    results[0] = left(math, cotangents[0]);
  if (cotangents[0] && builder.needs(1))
    results[1] = right(math, cotangents[0]);
  return results;
}

/// Emits `compute` on the scalars. 16-bit floats are first widened to f32, and the result is
/// rounded once.
template <typename Fn>
mlir::Value emitWide(ElementBuilder &e, mlir::ValueRange scalars, Fn compute) {
  llvm::SmallVector<mlir::Value> wide;
  for (mlir::Value scalar : scalars)
    wide.push_back(widen(e, scalar));
  mlir::Type element = mlir::getElementTypeOrSelf(scalars[0].getType());
  mlir::Value result = compute(wide);
  return llvm::isa<mlir::FloatType>(element) ? narrow(e, result, element) : result;
}

} // namespace parashard::ps

#endif
