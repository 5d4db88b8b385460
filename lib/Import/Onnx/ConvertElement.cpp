// Converts elementwise ops: arithmetic, functions, select, casts and dropout.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

template <typename Op> LogicalResult convertUnary(OnnxNode &n) {
  Value x = n.input(0);
  return n.failed() ? failure() : n.set(n.make<Op>(x));
}

/// Converts a function that is composed of other ops. Computes 16-bit floats in f32.
template <Value (*kBuild)(TensorBuilder &, Value)> LogicalResult convertFunction(OnnxNode &n) {
  Value x = n.input(0);
  return n.failed() ? failure() : n.set(n.convert(kBuild(n, n.widen(x)), getElement(x)));
}

template <typename Op> LogicalResult convertBinary(OnnxNode &n) {
  auto [lhs, rhs] = n.broadcastInputs();
  return n.failed() ? failure() : n.set(n.make<Op>(lhs, rhs));
}

/// Converts a multiplication. x * sigmoid(x) becomes `ps.silu`.
LogicalResult convertMul(OnnxNode &n) {
  auto [lhs, rhs] = n.broadcastInputs();
  if (n.failed())
    return failure();
  for (auto [x, gate] : {std::pair(lhs, rhs), std::pair(rhs, lhs)})
    if (auto sigmoid = gate.getDefiningOp<ps::SigmoidOp>(); sigmoid && sigmoid.getOperand() == x)
      return n.set(n.make<ps::SiluOp>(x));
  return n.set(n.make<ps::MulOp>(lhs, rhs));
}

/// Builds 1 / x. 1 / sqrt(x) becomes `ps.rsqrt`.
Value buildReciprocal(OnnxNode &n, Value x) {
  if (auto root = x.getDefiningOp<ps::SqrtOp>())
    return n.make<ps::RsqrtOp>(root.getOperand());
  return n.make<ps::DivOp>(n.splat(getType(x), 1), x);
}

LogicalResult convertReciprocal(OnnxNode &n) {
  Value x = n.input(0);
  return n.failed() ? failure() : n.set(buildReciprocal(n, x));
}

LogicalResult convertDiv(OnnxNode &n) {
  auto [lhs, rhs] = n.broadcastInputs();
  if (n.failed())
    return failure();
  if (isFloat(lhs) && n.numberInput(0) == 1.0)
    return n.set(buildReciprocal(n, rhs));
  return n.set(n.make<ps::DivOp>(lhs, rhs));
}

/// Builds the remainder of integers. The remainder has the sign of the divisor, or with `fmod` the
/// sign of the dividend.
LogicalResult convertMod(OnnxNode &n) {
  auto [lhs, rhs] = n.broadcastInputs();
  if (n.failed())
    return failure();
  if (isFloat(lhs))
    return n.fail("takes the remainder of floating-point numbers, which is not supported");
  Value quotient =
      n.integer("fmod", 0) ? Value(n.make<ps::DivOp>(lhs, rhs)) : buildFloorDivision(n, lhs, rhs);
  return n.set(n.make<ps::SubOp>(lhs, n.make<ps::MulOp>(quotient, rhs)));
}

LogicalResult convertPow(OnnxNode &n) {
  Value base = n.input(0), exponent = n.input(1);
  if (n.failed())
    return failure();
  std::optional<double> number = n.numberInput(1);
  SmallVector<int64_t> shape = n.commonShape(base, exponent);
  base = n.broadcast(base, shape);
  if (!isFloat(base) && !(number && *number >= 1 && *number <= 3))
    return n.fail("raises integers to a power that is not 1, 2 or 3, which is not supported");
  if (number)
    return n.set(buildPower(n, base, *number));
  exponent = n.broadcast(n.convert(exponent, getElement(base)), shape);
  return n.failed() ? failure() : n.set(n.make<ps::PowOp>(base, exponent));
}

Value combine(OnnxNode &n, ps::ReductionKind kind, Value lhs, Value rhs) {
  SmallVector<int64_t> shape = n.commonShape(lhs, rhs);
  lhs = n.broadcast(lhs, shape), rhs = n.broadcast(rhs, shape);
  if (n.failed())
    return lhs;
  switch (kind) {
  case ps::ReductionKind::Max:
    return buildMaximum(n, lhs, rhs);
  case ps::ReductionKind::Min:
    return n.make<ps::MinOp>(lhs, rhs);
  default:
    return n.make<ps::AddOp>(lhs, rhs);
  }
}

/// Converts ops with any number of inputs. Combines the inputs from left to right.
template <ps::ReductionKind kKind, bool kMean = false> LogicalResult convertVariadic(OnnxNode &n) {
  Value value = n.input(0);
  for (unsigned i = 1; i < n.getNumInputs() && !n.failed(); ++i)
    value = combine(n, kKind, value, n.input(i));
  if (n.failed())
    return failure();
  return n.set(kMean ? n.divide(value, n.getNumInputs()) : value);
}

LogicalResult convertWhere(OnnxNode &n) {
  Value condition = n.input(0), lhs = n.input(1), rhs = n.input(2);
  if (n.failed())
    return failure();
  auto shape = n.commonShape(condition, lhs);
  shape = n.commonShape(n.splat(getType(lhs).clone(shape), 0), rhs);
  condition = n.broadcast(condition, shape);
  lhs = n.broadcast(lhs, shape), rhs = n.broadcast(rhs, shape);
  return n.failed() ? failure() : n.set(n.make<ps::SelectOp>(condition, lhs, rhs));
}

/// Converts Clip. As in PyTorch, an element that equals a bound keeps its gradient.
LogicalResult convertClip(OnnxNode &n) {
  Value x = n.input(0);
  for (auto [i, beyond] : {std::pair(1u, ps::Predicate::Lt), std::pair(2u, ps::Predicate::Gt)}) {
    Value limit = n.optionalInput(i);
    if (n.failed() || !limit)
      continue;
    limit = n.broadcast(limit, getShape(x));
    x = n.make<ps::SelectOp>(n.compare(beyond, x, limit), limit, x);
  }
  return n.failed() ? failure() : n.set(x);
}

LogicalResult convertTo(OnnxNode &n, Type element) {
  Value x = n.input(0);
  n.markWithoutEffect({"saturate", "round_mode"}); // for 8-bit floats, which are not supported
  return n.failed() ? failure() : n.set(n.convert(x, element));
}

LogicalResult convertCast(OnnxNode &n) {
  int32_t dtype = n.integer("to", 0);
  Type element = getOnnxElementType(dtype, n.b.getContext());
  if (!element)
    return n.fail("casts to the dtype " + getOnnxDtypeName(dtype) + ", which is not supported");
  return convertTo(n, element);
}

LogicalResult convertCastLike(OnnxNode &n) {
  Value like = n.input(1);
  return n.failed() ? failure() : convertTo(n, getElement(like));
}

LogicalResult convertIdentity(OnnxNode &n) {
  if (n.has(0) && n.scope.sequences.contains(n.node.input(0)))
    return n.setSequence(*n.sequence(0));
  Value x = n.input(0);
  return n.failed() ? failure() : n.set(x);
}

/// Rounds floats. The result has no gradient.
template <typename Op> LogicalResult convertRounding(OnnxNode &n) {
  Value x = n.input(0);
  return n.failed() ? failure() : n.set(isFloat(x) ? n.make<Op>(x) : x);
}

/// Builds the sign: -1, 0 or 1. The result has no gradient.
LogicalResult convertSign(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  Value zero = n.splat(getType(x), 0);
  Value positive = n.convert(n.compare(ps::Predicate::Gt, x, zero), getElement(x));
  Value negative = n.convert(n.compare(ps::Predicate::Lt, x, zero), getElement(x));
  return n.set(n.make<ps::SubOp>(positive, negative));
}

/// Converts a logarithm. log(1 + exp(x)) becomes `ps.softplus`, which does not overflow.
LogicalResult convertLog(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  if (auto sum = x.getDefiningOp<ps::AddOp>())
    for (auto [one, power] :
         {std::pair(sum.getLhs(), sum.getRhs()), std::pair(sum.getRhs(), sum.getLhs())}) {
      auto constant = one.getDefiningOp<ps::ConstantOp>();
      auto splat =
          constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
      auto exp = power.getDefiningOp<ps::ExpOp>();
      if (splat && exp && splat.getSplatValue<APFloat>().isExactlyValue(1.0))
        return n.set(n.make<ps::SoftplusOp>(exp.getOperand()));
    }
  return n.set(n.make<ps::LogOp>(x));
}

LogicalResult convertDropout(OnnxNode &n) {
  Value x = n.input(0);
  std::optional<double> ratio = n.has(1) ? n.numberInput(1) : 0.5;
  std::optional<double> training = n.has(2) ? n.numberInput(2) : 0.0;
  n.markWithoutEffect({"seed"}); // the program uses its own seed
  if (!ratio || !training)
    return n.fail("has a ratio or mode that is not known at import");
  if (n.failed() || failed(n.onlyResults(1, "the mask")))
    return failure();
  return n.set(buildDropout(n, x, *ratio, *training != 0));
}

} // namespace

void addOnnxElementConverters(OnnxConverterTable &table) {
  table["Add"] = convertBinary<ps::AddOp>;
  table["Sub"] = convertBinary<ps::SubOp>;
  table["Mul"] = convertMul;
  table["Div"] = convertDiv;
  table["Mod"] = convertMod;
  table["Pow"] = convertPow;
  table["Max"] = convertVariadic<ps::ReductionKind::Max>;
  table["Min"] = convertVariadic<ps::ReductionKind::Min>;
  table["Sum"] = convertVariadic<ps::ReductionKind::Sum>;
  table["Mean"] = convertVariadic<ps::ReductionKind::Sum, true>;
  table["Neg"] = convertUnary<ps::NegOp>;
  table["Abs"] = convertUnary<ps::AbsOp>;
  table["Exp"] = convertUnary<ps::ExpOp>;
  table["Log"] = convertLog;
  table["Sqrt"] = convertUnary<ps::SqrtOp>;
  table["Sin"] = convertUnary<ps::SinOp>;
  table["Cos"] = convertUnary<ps::CosOp>;
  table["Atan"] = convertUnary<ps::AtanOp>;
  table["Tan"] = convertFunction<buildTan>;
  table["Sinh"] = convertFunction<buildSinh>;
  table["Cosh"] = convertFunction<buildCosh>;
  table["Asinh"] = convertFunction<buildAsinh>;
  table["Acosh"] = convertFunction<buildAcosh>;
  table["Atanh"] = convertFunction<buildAtanh>;
  table["Asin"] = convertFunction<buildAsin>;
  table["Acos"] = convertFunction<buildAcos>;
  table["Erf"] = convertUnary<ps::ErfOp>;
  table["Tanh"] = convertUnary<ps::TanhOp>;
  table["Sigmoid"] = convertUnary<ps::SigmoidOp>;
  table["Relu"] = convertUnary<ps::ReluOp>;
  table["Softplus"] = convertUnary<ps::SoftplusOp>;
  table["Reciprocal"] = convertReciprocal;
  table["Sign"] = convertSign;
  table["Floor"] = convertRounding<ps::FloorOp>;
  table["Ceil"] = convertRounding<ps::CeilOp>;
  table["Round"] = convertRounding<ps::RoundOp>;
  table["Where"] = convertWhere;
  table["Clip"] = convertClip;
  table["Cast"] = convertCast;
  table["CastLike"] = convertCastLike;
  table["Identity"] = convertIdentity;
  table["Dropout"] = convertDropout;
}

} // namespace parashard::import
