// Builds trigonometric and hyperbolic functions from other elementwise ops. Near 0 and at the ends
// of their domains, values and gradients lose no digits: each is accurate to a few ulps.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Math.h"

using namespace mlir;

namespace parashard::import {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLog2 = 0.69314718055994530942;
/// Above this x, x^2 + 1 and x^2 - 1 equal x^2 in f64.
constexpr double kLarge = 1e8;

/// Returns y where x >= 0, and -y elsewhere. For y = x, this is |x|, with the gradient 1 at x = 0.
Value flip(Math &m, Value x, Value y) {
  return m.select(m.is(x, ps::Predicate::Lt, 0), m.neg(y), y);
}

/// Returns sqrt(1 - x) and sqrt(1 + x). Their product is sqrt(1 - x^2), computed without
/// cancellation near 1 and -1.
std::pair<Value, Value> buildRoots(Math &m, Value x) {
  return {m.sqrt(m.sub(m.splat(x, 1), x)), m.sqrt(m.add(x, 1))};
}

/// Returns log(2 x) where x is large, and `build(x)` elsewhere. Each branch gets 2 instead of x
/// where it is not selected, so that its gradient stays finite.
template <typename Fn> Value logIfLarge(Math &m, Value x, Fn build) {
  Value isLarge = m.is(x, ps::Predicate::Gt, kLarge), two = m.splat(x, 2);
  Value log = m.n.make<ps::LogOp>(m.select(isLarge, x, two));
  return m.select(isLarge, m.add(log, kLog2), build(m.select(isLarge, two, x)));
}

} // namespace

Value buildTan(TensorBuilder &n, Value x) {
  return n.make<ps::DivOp>(n.make<ps::SinOp>(x), n.make<ps::CosOp>(x));
}

Value buildSinh(TensorBuilder &n, Value x) {
  Math m{n};
  Value size = flip(m, x, x), power = n.make<ps::ExpOp>(m.mul(size, 0.5));
  // `factor` is 1 - exp(-2 |x|), or 1 for |x| > 20. Without this bound, the gradient at a large x
  // would be infinity times 0.
  Value isOne = m.is(size, ps::Predicate::Gt, 20), zero = m.splat(x, 0);
  Value rest = n.make<ps::Expm1Op>(m.mul(m.select(isOne, zero, size), -2));
  Value factor = m.select(isOne, m.splat(x, 1), m.neg(rest));
  return flip(m, x, m.mul(m.mul(m.mul(power, 0.5), factor), power));
}

Value buildCosh(TensorBuilder &n, Value x) {
  Math m{n};
  Value half = buildSinh(n, m.mul(x, 0.5));
  return m.add(m.mul(m.mul(half, 2), half), 1);
}

Value buildAsinh(TensorBuilder &n, Value x) {
  Math m{n};
  return flip(m, x, logIfLarge(m, flip(m, x, x), [&](Value size) {
                Value square = m.mul(size, size);
                Value quotient = m.div(square, m.add(m.sqrt(m.add(square, 1)), 1));
                return n.make<ps::Log1pOp>(m.add(size, quotient));
              }));
}

Value buildAcosh(TensorBuilder &n, Value x) {
  Math m{n};
  return logIfLarge(m, x, [&](Value bounded) {
    Value rest = m.add(bounded, -1);
    Value root = m.mul(m.sqrt(rest), m.sqrt(m.add(rest, 2)));
    return n.make<ps::Log1pOp>(m.add(rest, root));
  });
}

Value buildAtanh(TensorBuilder &n, Value x) {
  Math m{n};
  Value above = n.make<ps::Log1pOp>(x), below = n.make<ps::Log1pOp>(m.neg(x));
  return m.mul(m.sub(above, below), 0.5);
}

Value buildAsin(TensorBuilder &n, Value x) {
  Math m{n};
  auto [below, above] = buildRoots(m, x);
  Value half = n.make<ps::AtanOp>(m.div(x, m.add(m.mul(below, above), 1)));
  return m.mul(half, 2);
}

Value buildAcos(TensorBuilder &n, Value x) {
  Math m{n};
  auto [below, above] = buildRoots(m, flip(m, x, x));
  Value angle = m.mul(n.make<ps::AtanOp>(m.div(below, above)), 2);
  return m.select(m.is(x, ps::Predicate::Lt, 0), m.sub(m.splat(x, kPi), angle), angle);
}

Value buildLogAddExp(TensorBuilder &n, Value lhs, Value rhs) {
  Math m{n};
  Value swaps = n.compare(ps::Predicate::Lt, lhs, rhs);
  Value large = m.select(swaps, rhs, lhs), small = m.select(swaps, lhs, rhs);
  Value difference = m.sub(small, large);
  // The difference of two equal infinities is NaN.
  Value isEqual = n.compare(ps::Predicate::Eq, small, large);
  Value isNan = n.compare(ps::Predicate::Ne, difference, difference);
  Value isInfinite = n.make<ps::AndOp>(isEqual, isNan);
  difference = m.select(isInfinite, m.splat(difference, 0), difference);
  return m.add(large, m.softplus(difference));
}

} // namespace parashard::import
