// Converts binary arithmetic (add, sub, mul, div, pow, ...) with PyTorch's type promotion and
// broadcasting.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Returns an operand as a tensor of the result's type: converts and broadcasts a tensor, and
/// builds a splat for a number.
Value getOperand(NodeConverter &n, StringRef name, RankedTensorType type) {
  if (n.isTensor(name))
    return n.broadcast(n.convert(n.tensor(name), type.getElementType()), type.getShape());
  return n.splat(type, n.scalar(name).value);
}

template <typename Op> LogicalResult convertBinary(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value lhs = getOperand(n, "self", type), rhs = getOperand(n, "other", type);
  return n.failed() ? failure() : n.set(n.make<Op>(lhs, rhs));
}

LogicalResult convertMaximum(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value lhs = getOperand(n, "self", type), rhs = getOperand(n, "other", type);
  if (n.failed())
    return failure();
  return n.set(buildMaximum(n, lhs, rhs));
}

/// Converts logaddexp. Computes 16-bit floats in f32.
LogicalResult convertLogAddExp(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value lhs = getOperand(n, "self", type), rhs = getOperand(n, "other", type);
  if (n.failed())
    return failure();
  return n.set(buildLogAddExp(n, n.widen(lhs), n.widen(rhs)));
}

/// Builds self + alpha * other. With `kSwap` (rsub), builds other - alpha * self.
template <typename Op, bool kSwap = false> LogicalResult convertSum(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value lhs = getOperand(n, "self", type), rhs = getOperand(n, "other", type);
  if (n.failed())
    return failure();
  if (kSwap)
    std::swap(lhs, rhs);
  double alpha = n.number("alpha", 1);
  if (alpha != 1)
    rhs = n.make<ps::MulOp>(rhs, n.splat(type, alpha));
  if (std::is_same_v<Op, ps::AddOp> && type.getElementType().isInteger(1))
    return n.set(n.make<ps::OrOp>(lhs, rhs));
  return n.set(n.make<Op>(lhs, rhs));
}

LogicalResult convertDivide(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value lhs = getOperand(n, "self", type), rhs = getOperand(n, "other", type);
  if (n.failed())
    return failure();
  std::string mode = n.string("rounding_mode");
  if (mode.empty())
    return n.set(n.make<ps::DivOp>(lhs, rhs));
  if (isa<FloatType>(type.getElementType()))
    return n.fail("rounds a floating-point quotient (rounding_mode='" + mode +
                  "'), which is not supported");
  return n.set(mode == "floor" ? buildFloorDivision(n, lhs, rhs)
                               : Value(n.make<ps::DivOp>(lhs, rhs)));
}

LogicalResult convertFloorDivide(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  if (isa<FloatType>(type.getElementType()))
    return n.fail("rounds a floating-point quotient, which is not supported");
  Value lhs = getOperand(n, "self", type), rhs = getOperand(n, "other", type);
  return n.failed() ? failure() : n.set(buildFloorDivision(n, lhs, rhs));
}

/// Builds lhs - lhs / rhs * rhs for integers, with a floored (remainder) or truncated (fmod)
/// quotient.
template <bool kFloor> LogicalResult convertRemainder(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  if (isa<FloatType>(type.getElementType()))
    return n.fail("takes the remainder of floating-point numbers, which is not supported");
  Value lhs = getOperand(n, "self", type), rhs = getOperand(n, "other", type);
  if (n.failed())
    return failure();
  Value quotient = kFloor ? buildFloorDivision(n, lhs, rhs) : Value(n.make<ps::DivOp>(lhs, rhs));
  return n.set(n.make<ps::SubOp>(lhs, n.make<ps::MulOp>(quotient, rhs)));
}

LogicalResult convertPower(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value base = getOperand(n, "self", type);
  if (!n.isTensor("exponent")) {
    double exponent = n.number("exponent", 1);
    if (!isa<FloatType>(type.getElementType()) && (exponent < 1 || exponent > 3))
      return n.fail("raises integers to the power " + Twine(int64_t(exponent)) +
                    ", which is not supported");
    return n.failed() ? failure() : n.set(buildPower(n, base, exponent));
  }
  if (!isa<FloatType>(type.getElementType()))
    return n.fail("raises integers to a tensor of powers, which is not supported");
  Value exponent = getOperand(n, "exponent", type);
  return n.failed() ? failure() : n.set(n.make<ps::PowOp>(base, exponent));
}

/// Builds self + value * tensor1 * tensor2 (or / tensor2).
template <typename Op> LogicalResult convertFusedSum(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value self = getOperand(n, "self", type);
  Value product = n.make<Op>(getOperand(n, "tensor1", type), getOperand(n, "tensor2", type));
  if (n.failed())
    return failure();
  if (double value = n.number("value", 1); value != 1)
    product = n.make<ps::MulOp>(product, n.splat(type, value));
  return n.set(n.make<ps::AddOp>(self, product));
}

LogicalResult convertWhere(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value condition = n.broadcast(n.convert(n.tensor("condition"), n.i1()), type.getShape());
  Value lhs = getOperand(n, "self", type), rhs = getOperand(n, "other", type);
  return n.failed() ? failure() : n.set(n.make<ps::SelectOp>(condition, lhs, rhs));
}

LogicalResult convertMaskedFill(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value mask = n.broadcast(n.convert(n.tensor("mask"), n.i1()), type.getShape());
  Value value = getOperand(n, "value", type), self = getOperand(n, "self", type);
  return n.failed() ? failure() : n.set(n.make<ps::SelectOp>(mask, value, self));
}

/// Builds a clamp. As in PyTorch, an element that equals a bound keeps its gradient.
LogicalResult convertClamp(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value value = getOperand(n, "self", type);
  auto bound = [&](StringRef name, ps::Predicate beyond) {
    if (!n.has(name))
      return;
    Value limit = getOperand(n, name, type);
    value = n.make<ps::SelectOp>(n.compare(beyond, value, limit), limit, value);
  };
  bound("min", ps::Predicate::Lt);
  bound("max", ps::Predicate::Gt);
  return n.failed() ? failure() : n.set(value);
}

} // namespace

void addArithmeticConverters(ConverterTable &table) {
  table["aten.add"] = convertSum<ps::AddOp>;
  table["aten.sub"] = convertSum<ps::SubOp>;
  table["aten.rsub"] = convertSum<ps::SubOp, true>;
  table["aten.mul"] = convertBinary<ps::MulOp>;
  table["aten.div"] = convertDivide;
  table["aten.true_divide"] = convertDivide;
  table["aten.floor_divide"] = convertFloorDivide;
  table["aten.remainder"] = convertRemainder<true>;
  table["aten.fmod"] = convertRemainder<false>;
  table["aten.pow.Tensor_Scalar"] = convertPower;
  table["aten.pow.Tensor_Tensor"] = convertPower;
  table["aten.maximum"] = convertMaximum;
  table["aten.minimum"] = convertBinary<ps::MinOp>;
  table["aten.logaddexp"] = convertLogAddExp;
  table["aten.addcmul"] = convertFusedSum<ps::MulOp>;
  table["aten.addcdiv"] = convertFusedSum<ps::DivOp>;
  table["aten.where.self"] = convertWhere;
  table["aten.where.ScalarSelf"] = convertWhere;
  table["aten.where.ScalarOther"] = convertWhere;
  table["aten.where.Scalar"] = convertWhere;
  table["aten.masked_fill"] = convertMaskedFill;
  table["aten.clamp"] = convertClamp;
  table["aten.clamp_min"] = convertClamp;
  table["aten.clamp_max"] = convertClamp;
}

} // namespace parashard::import
