// Converts activations. An activation without a `ps` op is composed of other ops. Branches that are
// not selected stay finite, since infinite values would make gradients NaN.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

Value scale(OnnxNode &n, Value x, double factor) {
  return factor == 1 ? x : n.make<ps::MulOp>(x, n.splat(getType(x), factor));
}

Value isAbove(OnnxNode &n, Value x, double bound) {
  return n.compare(ps::Predicate::Gt, x, n.splat(getType(x), bound));
}

/// Clamps x to [0, 1]. The gradient is 0 at the bounds and outside of them.
Value boundToUnit(OnnxNode &n, Value x) {
  Value zero = n.splat(getType(x), 0), one = n.splat(getType(x), 1);
  x = n.make<ps::SelectOp>(n.compare(ps::Predicate::Le, x, zero), zero, x);
  return n.make<ps::SelectOp>(n.compare(ps::Predicate::Ge, x, one), one, x);
}

LogicalResult convertGelu(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  std::string approximate = n.string("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return n.fail("has the approximation '" + approximate + "'; expected none or tanh");
  auto kind = approximate == "tanh" ? ps::GeluKind::Tanh : ps::GeluKind::Erf;
  return n.set(n.make<ps::GeluOp>(getType(x), kind, x));
}

/// Builds gamma * (x > 0 ? x : alpha * expm1(x)).
LogicalResult buildElu(OnnxNode &n, double alpha, double gamma) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  Value positive = isAbove(n, x, 0);
  Value below = n.make<ps::SelectOp>(positive, n.splat(getType(x), 0), x);
  Value curve = scale(n, n.make<ps::Expm1Op>(below), alpha * gamma);
  return n.set(n.make<ps::SelectOp>(positive, scale(n, x, gamma), curve));
}

LogicalResult convertElu(OnnxNode &n) { return buildElu(n, n.number("alpha", 1), 1); }
LogicalResult convertSelu(OnnxNode &n) {
  return buildElu(n, n.number("alpha", 1.67326319217681884765625),
                  n.number("gamma", 1.05070102214813232421875));
}

LogicalResult convertLeakyRelu(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  return n.set(n.make<ps::SelectOp>(isAbove(n, x, 0), x, scale(n, x, n.number("alpha", 0.01))));
}

LogicalResult convertPRelu(OnnxNode &n) {
  Value x = n.input(0), slope = n.input(1);
  slope = n.failed() ? slope : n.broadcast(slope, getShape(x));
  if (n.failed())
    return failure();
  return n.set(n.make<ps::SelectOp>(isAbove(n, x, 0), x, n.make<ps::MulOp>(x, slope)));
}

/// Builds alpha * x + beta, clamped to [0, 1].
Value buildHardSigmoid(OnnxNode &n, Value x, double alpha, double beta) {
  Value line = scale(n, x, alpha);
  return boundToUnit(n, n.make<ps::AddOp>(line, n.splat(getType(x), beta)));
}

LogicalResult convertHardSigmoid(OnnxNode &n) {
  Value x = n.input(0);
  return n.failed() ? failure()
                    : n.set(buildHardSigmoid(n, x, n.number("alpha", 0.2), n.number("beta", 0.5)));
}

LogicalResult convertHardSwish(OnnxNode &n) {
  Value x = n.input(0);
  return n.failed() ? failure() : n.set(n.make<ps::MulOp>(x, buildHardSigmoid(n, x, 1.0 / 6, 0.5)));
}

LogicalResult convertMish(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  return n.set(n.make<ps::MulOp>(x, n.make<ps::TanhOp>(n.make<ps::SoftplusOp>(x))));
}

/// Builds x * sigmoid(alpha * x).
LogicalResult convertSwish(OnnxNode &n) {
  Value x = n.input(0);
  double alpha = n.number("alpha", 1);
  if (n.failed())
    return failure();
  if (alpha == 1)
    return n.set(n.make<ps::SiluOp>(x));
  return n.set(n.make<ps::MulOp>(x, n.make<ps::SigmoidOp>(scale(n, x, alpha))));
}

} // namespace

void addOnnxActivationConverters(OnnxConverterTable &table) {
  table["Gelu"] = convertGelu;
  table["Elu"] = convertElu;
  table["Selu"] = convertSelu;
  table["LeakyRelu"] = convertLeakyRelu;
  table["PRelu"] = convertPRelu;
  table["HardSigmoid"] = convertHardSigmoid;
  table["HardSwish"] = convertHardSwish;
  table["Mish"] = convertMish;
  table["Swish"] = convertSwish;
}

} // namespace parashard::import
