// Converts comparisons and logical ops.
#include "lib/Import/Pt2/Convert.h"
#include <limits>

using namespace mlir;

namespace parashard::import {
namespace {

/// Returns both operands, converted to their promoted type and broadcast to the result's shape.
std::pair<Value, Value> getOperands(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value lhs = n.tensor("self");
  if (n.isTensor("other")) {
    Value rhs = n.tensor("other");
    Type element = promoteTypes(lhs, rhs);
    return {n.broadcast(n.convert(lhs, element), type.getShape()),
            n.broadcast(n.convert(rhs, element), type.getShape())};
  }
  Scalar scalar = n.scalar("other");
  Type element = promoteTypes(lhs, scalar);
  return {n.broadcast(n.convert(lhs, element), type.getShape()),
          n.splat(type.clone(element), scalar.value)};
}

template <ps::Predicate kPredicate> LogicalResult convertCompare(NodeConverter &n) {
  auto [lhs, rhs] = getOperands(n);
  return n.failed() ? failure() : n.set(n.compare(kPredicate, lhs, rhs));
}

/// Converts an `and` or `or`. With `kLogical`, converts the operands to bool first. Otherwise,
/// integers are combined bitwise.
template <typename Op, bool kLogical> LogicalResult convertLogic(NodeConverter &n) {
  auto [lhs, rhs] = getOperands(n);
  if (n.failed())
    return failure();
  if (kLogical)
    lhs = n.convert(lhs, n.i1()), rhs = n.convert(rhs, n.i1());
  return n.set(n.make<Op>(lhs, rhs));
}

template <bool kLogical> LogicalResult convertNot(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  if (!kLogical && !getElement(x).isInteger(1)) // ~x = -x - 1
    return n.set(n.make<ps::SubOp>(n.make<ps::NegOp>(x), n.splat(getType(x), 1)));
  return n.set(n.make<ps::NotOp>(n.convert(x, n.i1())));
}

template <bool kLogical> LogicalResult convertXor(NodeConverter &n) {
  auto [lhs, rhs] = getOperands(n);
  if (n.failed())
    return failure();
  if (!kLogical && !getElement(lhs).isInteger(1))
    return n.fail("is a bitwise exclusive or of integers, which is not supported");
  return n.set(n.compare(ps::Predicate::Ne, n.convert(lhs, n.i1()), n.convert(rhs, n.i1())));
}

/// Builds isnan as x != x.
LogicalResult convertIsNan(NodeConverter &n) {
  Value x = n.tensor("self");
  return n.failed() ? failure() : n.set(n.compare(ps::Predicate::Ne, x, x));
}

/// Builds |x| == inf (isinf) or |x| < inf (isfinite). Integers are always finite.
template <ps::Predicate kPredicate> LogicalResult convertIsInfinite(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  if (!isFloat(x))
    return n.set(n.splat(n.typeLike(x, n.i1()), kPredicate == ps::Predicate::Lt));
  Value infinity = n.splat(getType(x), std::numeric_limits<double>::infinity());
  return n.set(n.compare(kPredicate, n.make<ps::AbsOp>(x), infinity));
}

} // namespace

void addCompareConverters(ConverterTable &table) {
  table["aten.eq"] = convertCompare<ps::Predicate::Eq>;
  table["aten.ne"] = convertCompare<ps::Predicate::Ne>;
  table["aten.lt"] = convertCompare<ps::Predicate::Lt>;
  table["aten.le"] = convertCompare<ps::Predicate::Le>;
  table["aten.gt"] = convertCompare<ps::Predicate::Gt>;
  table["aten.ge"] = convertCompare<ps::Predicate::Ge>;
  table["aten.isnan"] = convertIsNan;
  table["aten.isinf"] = convertIsInfinite<ps::Predicate::Eq>;
  table["aten.isfinite"] = convertIsInfinite<ps::Predicate::Lt>;
  table["aten.logical_and"] = convertLogic<ps::AndOp, true>;
  table["aten.logical_or"] = convertLogic<ps::OrOp, true>;
  table["aten.logical_not"] = convertNot<true>;
  table["aten.logical_xor"] = convertXor<true>;
  table["aten.bitwise_and"] = convertLogic<ps::AndOp, false>;
  table["aten.bitwise_or"] = convertLogic<ps::OrOp, false>;
  table["aten.bitwise_not"] = convertNot<false>;
  table["aten.bitwise_xor"] = convertXor<false>;
  table["aten.__and__"] = convertLogic<ps::AndOp, false>;
  table["aten.__or__"] = convertLogic<ps::OrOp, false>;
}

} // namespace parashard::import
