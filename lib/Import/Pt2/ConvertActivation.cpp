// Converts activations and other unary functions that have no `ps` op of their own (elu, mish,
// sign, exp2, ...), and rounding. Each function is composed of existing ops. Branches that are not
// selected stay finite, since infinite values would make gradients NaN. At the boundary of two
// branches, the gradient is the same as in PyTorch.
#include "lib/Import/Math.h"
#include "lib/Import/Pt2/Dims.h"

using namespace mlir;

namespace parashard::import {
namespace {

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;

/// Returns the operand, converted to f32 for 16-bit floats, so that only the result is rounded.
Value getInput(NodeConverter &n) {
  Value x = n.tensor("self");
  if (!n.failed() && !isFloat(x))
    (void)n.fail("has an integer operand, which is not supported");
  return n.failed() ? x : n.widen(x);
}

/// Converts an op with `kBuild`, which builds the result from the operand.
template <Value (*kBuild)(NodeConverter &, Math &, Value)>
LogicalResult convertActivation(NodeConverter &n) {
  Value x = getInput(n);
  if (n.failed())
    return failure();
  Math m{n};
  Value y = kBuild(n, m, x);
  return n.failed() ? failure() : n.set(y);
}

/// Builds scale * (x > 0 ? x : alpha * expm1(inputScale * x)).
Value buildElu(Math &m, Value x, double alpha, double scale, double inputScale) {
  Value positive = m.is(x, ps::Predicate::Gt, 0);
  Value below = m.select(positive, m.splat(x, 0), x);
  Value curve = m.mul(m.n.make<ps::Expm1Op>(m.mul(below, inputScale)), alpha * scale);
  return m.select(positive, m.mul(x, scale), curve);
}

Value elu(NodeConverter &n, Math &m, Value x) {
  return buildElu(m, x, n.number("alpha", 1), n.number("scale", 1), n.number("input_scale", 1));
}
Value selu(NodeConverter &, Math &m, Value x) { return buildElu(m, x, kSeluAlpha, kSeluScale, 1); }
Value celu(NodeConverter &n, Math &m, Value x) {
  double alpha = n.number("alpha", 1);
  return buildElu(m, x, alpha, 1, 1 / alpha);
}

Value leakyRelu(NodeConverter &n, Math &m, Value x) {
  Value below = m.mul(x, n.number("negative_slope", 0.01));
  return m.select(m.is(x, ps::Predicate::Gt, 0), x, below);
}

/// Builds a PReLU with one slope, or one slope per channel (dim 1).
Value prelu(NodeConverter &n, Math &m, Value x) {
  Value slope = n.convert(n.tensor("weight"), getElement(x));
  if (getRank(slope) == 1 && getRank(x) > 1 && getShape(slope)[0] != 1) {
    SmallVector<int64_t> shape(getRank(x) - 1, 1);
    shape[0] = getShape(slope)[0];
    slope = n.reshape(slope, shape);
  }
  if (getRank(slope) > getRank(x))
    slope = n.reshape(slope, SmallVector<int64_t>(getRank(x), 1));
  Value below = m.mul(x, n.broadcast(slope, getShape(x)));
  return m.select(m.is(x, ps::Predicate::Gt, 0), x, below);
}

/// Builds log(1 + exp(beta * x)) / beta, or x where beta * x exceeds the threshold.
Value softplus(NodeConverter &n, Math &m, Value x) {
  double beta = n.number("beta", 1);
  Value scaled = m.mul(x, beta);
  Value curve = m.mul(m.softplus(scaled), 1 / beta);
  return m.select(m.is(scaled, ps::Predicate::Gt, n.number("threshold", 20)), x, curve);
}

Value logSigmoid(NodeConverter &n, Math &m, Value x) {
  return n.make<ps::NegOp>(m.softplus(n.make<ps::NegOp>(x)));
}

Value mish(NodeConverter &n, Math &m, Value x) {
  return m.mul(x, n.make<ps::TanhOp>(m.softplus(x)));
}

Value hardtanh(NodeConverter &n, Math &m, Value x) {
  return m.bound(x, n.number("min_val", -1), n.number("max_val", 1));
}
Value relu6(NodeConverter &, Math &m, Value x) { return m.bound(x, 0, 6); }
Value hardsigmoid(NodeConverter &, Math &m, Value x) {
  return m.mul(m.bound(m.add(x, 3), 0, 6), 1.0 / 6);
}
/// Builds x * clamp(x + 3, 0, 6) / 6.
Value hardswish(NodeConverter &, Math &m, Value x) {
  return m.mul(m.mul(x, m.bound(m.add(x, 3), 0, 6)), 1.0 / 6);
}

Value threshold(NodeConverter &n, Math &m, Value x) {
  Value below = m.is(x, ps::Predicate::Le, n.scalar("threshold").value);
  return m.select(below, m.splat(x, n.scalar("value").value), x);
}

Value hardshrink(NodeConverter &n, Math &m, Value x) {
  double width = n.number("lambd", 0.5);
  Value inside =
      n.make<ps::AndOp>(m.is(x, ps::Predicate::Ge, -width), m.is(x, ps::Predicate::Le, width));
  return m.select(inside, m.splat(x, 0), x);
}

/// Moves x by `lambd` toward 0. Between -lambd and lambd, the result is 0 * x, which keeps NaN.
Value softshrink(NodeConverter &n, Math &m, Value x) {
  double width = n.number("lambd", 0.5);
  Value low = m.select(m.is(x, ps::Predicate::Lt, -width), m.add(x, width), m.mul(x, 0));
  return m.select(m.is(x, ps::Predicate::Gt, width), m.add(x, -width), low);
}

/// Multiplies the first half along a dim by the sigmoid of the second half.
Value glu(NodeConverter &n, Math &m, Value x) {
  std::optional<int64_t> dim = findDim(n, "dim", getRank(x), -1);
  if (!dim)
    return x;
  int64_t half = getShape(x)[*dim] / 2;
  Value gate = n.make<ps::SigmoidOp>(n.slice(x, *dim, half, 2 * half));
  return m.mul(n.slice(x, *dim, 0, half), gate);
}

/// Builds the sign: -1, 0 or 1. The result has no gradient.
Value sign(NodeConverter &n, Math &m, Value x) {
  Value positive = n.convert(m.is(x, ps::Predicate::Gt, 0), getElement(x));
  Value negative = n.convert(m.is(x, ps::Predicate::Lt, 0), getElement(x));
  return n.make<ps::SubOp>(positive, negative);
}

Value fraction(NodeConverter &n, Math &, Value x) {
  return n.make<ps::SubOp>(x, n.make<ps::TruncOp>(x));
}

Value log2(NodeConverter &n, Math &m, Value x) {
  return m.mul(n.make<ps::LogOp>(x), 1.4426950408889634074); // 1 / ln 2
}
Value log10(NodeConverter &n, Math &m, Value x) {
  return m.mul(n.make<ps::LogOp>(x), 0.43429448190325182765); // 1 / ln 10
}
Value exp2(NodeConverter &n, Math &m, Value x) {
  return n.make<ps::ExpOp>(m.mul(x, 0.69314718055994530942)); // ln 2
}

/// Rounds floats and returns integers unchanged. The result has no gradient.
template <typename Op> LogicalResult convertRounding(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  if (n.integer("decimals", 0) != 0)
    return n.fail(
        "rounds to decimals, which is not supported; use round(x * 10**d) / 10**d instead");
  return n.set(isFloat(x) ? n.make<Op>(x) : x);
}

} // namespace

void addActivationConverters(ConverterTable &table) {
  table["aten.elu"] = convertActivation<elu>;
  table["aten.selu"] = convertActivation<selu>;
  table["aten.celu"] = convertActivation<celu>;
  table["aten.leaky_relu"] = convertActivation<leakyRelu>;
  table["aten.prelu"] = convertActivation<prelu>;
  table["aten._prelu_kernel"] = convertActivation<prelu>;
  table["aten.softplus"] = convertActivation<softplus>;
  table["aten.log_sigmoid"] = convertActivation<logSigmoid>;
  table["aten.log_sigmoid_forward"] = convertActivation<logSigmoid>;
  table["aten.mish"] = convertActivation<mish>;
  table["aten.hardtanh"] = convertActivation<hardtanh>;
  table["aten.relu6"] = convertActivation<relu6>;
  table["aten.hardsigmoid"] = convertActivation<hardsigmoid>;
  table["aten.hardswish"] = convertActivation<hardswish>;
  table["aten.threshold"] = convertActivation<threshold>;
  table["aten.hardshrink"] = convertActivation<hardshrink>;
  table["aten.softshrink"] = convertActivation<softshrink>;
  table["aten.glu"] = convertActivation<glu>;
  table["aten.sign"] = convertActivation<sign>;
  table["aten.sgn"] = convertActivation<sign>;
  table["aten.frac"] = convertActivation<fraction>;
  table["aten.log2"] = convertActivation<log2>;
  table["aten.log10"] = convertActivation<log10>;
  table["aten.exp2"] = convertActivation<exp2>;
  table["aten.floor"] = convertRounding<ps::FloorOp>;
  table["aten.ceil"] = convertRounding<ps::CeilOp>;
  table["aten.trunc"] = convertRounding<ps::TruncOp>;
  table["aten.fix"] = convertRounding<ps::TruncOp>;
  table["aten.round"] = convertRounding<ps::RoundOp>;
}

} // namespace parashard::import
