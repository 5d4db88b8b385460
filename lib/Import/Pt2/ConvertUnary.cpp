// Converts elementwise ops of one operand: functions, activations, casts, copies and dropout.
#include "lib/Import/BuildOps.h"
#include "lib/Import/HostValue.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Returns the operand, converted to the result's element type. Example: `exp` of integers computes
/// in floats.
Value getOperand(NodeConverter &n) {
  Value value = n.tensor(n.find("self") ? "self" : n.find("input") ? "input" : "a");
  return n.failed() ? value : n.convert(value, n.getResultType().getElementType());
}

template <typename Op> LogicalResult convertUnary(NodeConverter &n) {
  Value x = getOperand(n);
  return n.failed() ? failure() : n.set(n.make<Op>(x));
}

/// Converts a function that is composed of other ops. Computes 16-bit floats in f32.
template <Value (*kBuild)(TensorBuilder &, Value)> LogicalResult convertFunction(NodeConverter &n) {
  Value x = getOperand(n);
  return n.failed() ? failure() : n.set(kBuild(n, n.widen(x)));
}

/// Converts log1p. log1p(exp(x)) becomes softplus, which does not overflow.
LogicalResult convertLog1p(NodeConverter &n) {
  Value x = getOperand(n);
  if (n.failed())
    return failure();
  if (auto exp = x.getDefiningOp<ps::ExpOp>())
    return n.set(n.make<ps::SoftplusOp>(exp.getOperand()));
  return n.set(n.make<ps::Log1pOp>(x));
}

LogicalResult convertCopy(NodeConverter &n) {
  n.markTypeOnly({"other"});
  Value x = getOperand(n);
  return n.failed() ? failure() : n.set(x);
}

LogicalResult convertDetach(NodeConverter &n) {
  Value x = getOperand(n);
  return n.failed() ? failure() : n.set(stopGradient(n.b, n.loc, x));
}

LogicalResult convertReciprocal(NodeConverter &n) {
  Value x = getOperand(n);
  return n.failed() ? failure() : n.set(n.make<ps::DivOp>(n.splat(getType(x), 1), x));
}

LogicalResult convertSquare(NodeConverter &n) {
  Value x = getOperand(n);
  return n.failed() ? failure() : n.set(n.make<ps::MulOp>(x, x));
}

LogicalResult convertGelu(NodeConverter &n) {
  Value x = getOperand(n);
  if (n.failed())
    return failure();
  auto kind = n.string("approximate") == "tanh" ? ps::GeluKind::Tanh : ps::GeluKind::Erf;
  return n.set(n.make<ps::GeluOp>(getType(x), kind, x));
}

/// Converts aten.copy_(self, src). The result is `src`, converted and broadcast to the type of
/// `self`.
LogicalResult convertCopyFrom(NodeConverter &n) {
  n.markTypeOnly({"self"});
  RankedTensorType type = n.getResultType();
  Value source = n.tensor("src");
  if (n.failed())
    return failure();
  Value value = n.broadcast(n.convert(source, type.getElementType()), type.getShape());
  return n.failed() ? failure() : n.set(value);
}

LogicalResult convertDropout(NodeConverter &n) {
  Value x = getOperand(n);
  double p = n.number("p", 0.5);
  if (n.failed())
    return failure();
  return n.set(buildDropout(n, x, p, n.boolean("train", true)));
}

/// Converts native_dropout. Does not define the second result, a bool mask, because only the
/// backward uses the mask.
LogicalResult convertNativeDropout(NodeConverter &n) { return convertDropout(n); }

} // namespace

void addUnaryConverters(ConverterTable &table) {
  table["aten.neg"] = convertUnary<ps::NegOp>;
  table["aten.abs"] = convertUnary<ps::AbsOp>;
  table["aten.exp"] = convertUnary<ps::ExpOp>;
  table["aten.expm1"] = convertUnary<ps::Expm1Op>;
  table["aten.log"] = convertUnary<ps::LogOp>;
  table["aten.log1p"] = convertLog1p;
  table["aten.sqrt"] = convertUnary<ps::SqrtOp>;
  table["aten.rsqrt"] = convertUnary<ps::RsqrtOp>;
  table["aten.tanh"] = convertUnary<ps::TanhOp>;
  table["aten.erf"] = convertUnary<ps::ErfOp>;
  table["aten.sin"] = convertUnary<ps::SinOp>;
  table["aten.cos"] = convertUnary<ps::CosOp>;
  table["aten.atan"] = convertUnary<ps::AtanOp>;
  table["aten.arctan"] = convertUnary<ps::AtanOp>;
  table["aten.tan"] = convertFunction<buildTan>;
  table["aten.sinh"] = convertFunction<buildSinh>;
  table["aten.cosh"] = convertFunction<buildCosh>;
  table["aten.asinh"] = convertFunction<buildAsinh>;
  table["aten.arcsinh"] = convertFunction<buildAsinh>;
  table["aten.acosh"] = convertFunction<buildAcosh>;
  table["aten.arccosh"] = convertFunction<buildAcosh>;
  table["aten.atanh"] = convertFunction<buildAtanh>;
  table["aten.arctanh"] = convertFunction<buildAtanh>;
  table["aten.asin"] = convertFunction<buildAsin>;
  table["aten.arcsin"] = convertFunction<buildAsin>;
  table["aten.acos"] = convertFunction<buildAcos>;
  table["aten.arccos"] = convertFunction<buildAcos>;
  table["aten.sigmoid"] = convertUnary<ps::SigmoidOp>;
  table["aten.relu"] = convertUnary<ps::ReluOp>;
  table["aten.silu"] = convertUnary<ps::SiluOp>;
  table["aten.gelu"] = convertGelu;
  table["aten.reciprocal"] = convertReciprocal;
  table["aten.square"] = convertSquare;
  table["aten.clone"] = convertCopy;
  table["aten.contiguous"] = convertCopy;
  table["aten.alias"] = convertCopy;
  table["aten.lift_fresh"] = convertCopy;
  table["aten.lift_fresh_copy"] = convertCopy;
  table["aten.detach"] = convertDetach;
  table["aten._to_copy"] = convertCopy;
  table["aten.to"] = convertCopy;
  table["aten.type_as"] = convertCopy;
  table["aten.float"] = convertCopy;
  table["aten.copy"] = convertCopyFrom;
  table["prims.convert_element_type"] = convertCopy;
  table["aten.dropout"] = convertDropout;
  table["aten.native_dropout"] = convertNativeDropout;
}

} // namespace parashard::import
