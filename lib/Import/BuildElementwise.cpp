// Builds elementwise ops that several exported ops share: powers, integer division, bounded
// logarithms and dropout.
#include "lib/Import/BuildOps.h"

using namespace mlir;

namespace parashard::import {
namespace {

bool isLogarithm(Value value) {
  return value.getDefiningOp<ps::LogOp>() || value.getDefiningOp<ps::Log1pOp>();
}

/// Builds max(log(x), bound), as in a decomposed binary cross-entropy. Where the bound applies, x
/// is replaced by a safe value before the logarithm. Without this replacement, the infinite
/// derivative of log at 0 would make the gradient NaN.
Value buildBoundedLogarithm(TensorBuilder &n, Value logarithm, Value bound) {
  Operation *op = logarithm.getDefiningOp();
  Value x = op->getOperand(0), below = n.compare(ps::Predicate::Lt, logarithm, bound);
  double safe = isa<ps::LogOp>(op) ? 1 : 0;
  x = n.make<ps::SelectOp>(below, n.splat(getType(x), safe), x);
  Value safeLogarithm =
      isa<ps::LogOp>(op) ? Value(n.make<ps::LogOp>(x)) : Value(n.make<ps::Log1pOp>(x));
  return n.make<ps::SelectOp>(below, bound, safeLogarithm);
}

} // namespace

Value buildMaximum(TensorBuilder &n, Value lhs, Value rhs) {
  if (isLogarithm(lhs) && rhs.getDefiningOp<ps::ConstantOp>())
    return buildBoundedLogarithm(n, lhs, rhs);
  return n.make<ps::MaxOp>(lhs, rhs);
}

Value buildFloorDivision(TensorBuilder &n, Value lhs, Value rhs) {
  Value quotient = n.make<ps::DivOp>(lhs, rhs);
  Value rest = n.make<ps::SubOp>(lhs, n.make<ps::MulOp>(quotient, rhs));
  Value zero = n.splat(getType(lhs), 0), one = n.splat(getType(lhs), 1);
  auto isBelow = [&](Value x, Value y) { return n.compare(ps::Predicate::Lt, x, y); };
  // For a divisor of 0, neither case applies, so the quotient stays 0.
  Value differs = n.make<ps::OrOp>(n.make<ps::AndOp>(isBelow(rest, zero), isBelow(zero, rhs)),
                                   n.make<ps::AndOp>(isBelow(zero, rest), isBelow(rhs, zero)));
  return n.make<ps::SelectOp>(differs, n.make<ps::SubOp>(quotient, one), quotient);
}

Value buildPower(TensorBuilder &n, Value x, double exponent) {
  if (exponent == 1)
    return x;
  if (exponent == 2)
    return n.make<ps::MulOp>(x, x);
  if (exponent == 3)
    return n.make<ps::MulOp>(n.make<ps::MulOp>(x, x), x);
  if (exponent == 0)
    return n.splat(getType(x), 1);
  if (exponent == 0.5)
    return n.make<ps::SqrtOp>(x);
  if (exponent == -0.5)
    return n.make<ps::RsqrtOp>(x);
  if (exponent == -1)
    return n.make<ps::DivOp>(n.splat(getType(x), 1), x);
  return n.make<ps::PowOp>(x, n.splat(getType(x), exponent));
}

Value buildDropout(TensorBuilder &n, Value x, double p, bool training) {
  if (p == 0)
    return x;
  auto op = n.make<ps::DropoutOp>(x.getType(), x, Value(), Value(), Value(), n.b.getF64FloatAttr(p),
                                  n.b.getBoolAttr(training), IntegerAttr(), DenseI64ArrayAttr(),
                                  DenseI64ArrayAttr());
  return op;
}

} // namespace parashard::import
