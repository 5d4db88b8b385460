// Expands sin, cos, atan and pow of f32 into arithmetic.
#include "ExpandMath.h"
#include "MathBuilder.h"

using namespace mlir;
using parashard::codegen::MathBuilder;

namespace {

/// Builds c[0] + x (c[1] + x (c[2] + ...)).
Value horner(MathBuilder &m, Value x, ArrayRef<double> coefficients) {
  Value sum = m.constant(x, coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = m.fma(sum, x, m.constant(x, coefficient));
  return sum;
}

/// Expands sin or cos of f32. Example: sin(5) with 5 = 3 (pi / 2) + 0.2876 is -cos(0.2876).
///
/// Subtracts the multiple k of pi / 2 in f64, with pi / 2 in two parts. The remainder r has full
/// f32 accuracy for |x| < 2^48. For larger |x|, adjacent f32 numbers are at least 2^25 apart and a
/// sine has no meaning, so the result is NaN. Taylor series to r^9 and r^10 are accurate to half an
/// f32 ulp for |r| <= pi / 4.
template <typename Op> struct ExpandCircular : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1, kMax = 0x1p48;
    constexpr double kHalfPi[] = {0x1.921fb54442d18p0, 0x1.1a62633145c07p-54};
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "is not of f32");
    MathBuilder m(op.getLoc(), rewriter);
    Value x = m.convert(op.getOperand(), rewriter.getF64Type());
    Value k = m.floor(m.fma(x, m.constant(x, kTwoOverPi), m.constant(x, 0.5)));
    Value rest = x;
    for (double part : kHalfPi)
      rest = m.fma(k, m.constant(x, -part), rest);
    Value r = m.convert(rest, rewriter.getF32Type());
    Value square = m.mul(r, r);
    Value sine = m.mul(r, horner(m, square, {1., -1. / 6, 1. / 120, -1. / 5040, 1. / 362880}));
    Value cosine = horner(m, square, {1., -1. / 2, 1. / 24, -1. / 720, 1. / 40320, -1. / 3628800});

    // k mod 4 is the quadrant: sin, cos, -sin, -cos. A cosine uses the next quadrant.
    if (isa<math::CosOp>(op))
      k = m.add(k, m.constant(k, 1));
    Value quadrant = m.sub(k, m.mul(m.floor(m.mul(k, 0.25)), 4));
    Value isOdd =
        m.either(m.equal(quadrant, m.constant(k, 1)), m.equal(quadrant, m.constant(k, 3)));
    Value result = m.select(isOdd, cosine, sine);
    Value isNegative = m.compare(arith::CmpFPredicate::OGE, quadrant, m.constant(k, 2));
    result = m.select(isNegative, m.neg(result), result);
    Value hasMeaning =
        m.compare(arith::CmpFPredicate::OLT, m.unary<math::AbsFOp>(x), m.constant(x, kMax));
    rewriter.replaceOp(op, m.select(hasMeaning, result, m.constant(result, std::nan(""))));
    return success();
  }
};

/// Expands atan of f32. Example: atan(3) = pi / 2 + atan(-1 / 3).
///
/// For a > tan(3 pi / 8), atan(a) = pi / 2 + atan(-1 / a). Otherwise, for a > tan(pi / 8), atan(a)
/// = pi / 4 + atan((a - 1) / (a + 1)). The polynomial for the remaining atan is from `atanf` of the
/// Cephes library. The sum is accurate to 2.2 f32 ulps.
struct ExpandAtan : OpRewritePattern<math::AtanOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::AtanOp op, PatternRewriter &rewriter) const override {
    constexpr double kPi = 3.14159265358979323846;
    constexpr double kRounding = -2.7827534e-8; // pi / f32(pi) - 1
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "is not of f32");
    MathBuilder m(op.getLoc(), rewriter);
    Value x = op.getOperand(), a = m.unary<math::AbsFOp>(x), one = m.constant(x, 1);
    auto isAbove = [&](double bound) {
      return m.compare(arith::CmpFPredicate::OGT, a, m.constant(x, bound));
    };
    Value isLarge = isAbove(2.41421356237309504880), isMiddle = isAbove(0.41421356237309504880);
    Value numerator = m.select(isMiddle, m.sub(a, one), a);
    Value denominator = m.select(isMiddle, m.add(a, one), one);
    Value angle = m.select(isMiddle, m.constant(x, kPi / 4), m.constant(x, 0));
    numerator = m.select(isLarge, m.constant(x, -1), numerator);
    denominator = m.select(isLarge, a, denominator);
    angle = m.select(isLarge, m.constant(x, kPi / 2), angle);

    Value r = m.div(numerator, denominator), square = m.mul(r, r);
    Value series = horner(
        m, square, {-3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1, 8.05374449538e-2});
    Value rest = m.fma(m.mul(series, square), r, r);
    rest = m.fma(angle, m.constant(x, kRounding), rest);
    rewriter.replaceOp(op, math::CopySignOp::create(m.builder(), m.add(angle, rest), x));
    return success();
  }
};

/// Expands pow of f32: exp(y log |x|) with the sign and the exceptions of C's pow. Examples: (-2)^3
/// = -8, (-2)^0.5 = NaN, (-1)^inf = 1, 0^-1 = inf, NaN^0 = 1.
struct ExpandPow : OpRewritePattern<math::PowFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::PowFOp op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "is not of f32");
    MathBuilder m(op.getLoc(), rewriter);
    Value x = op.getLhs(), y = op.getRhs();
    Value zero = m.constant(x, 0), one = m.constant(x, 1);
    Value size = m.unary<math::AbsFOp>(x);
    Value power = m.unary<math::ExpOp>(m.mul(y, m.unary<math::LogOp>(size)));

    Value half = m.mul(y, 0.5);
    Value isWhole = m.equal(m.floor(y), y);
    Value isEven = m.equal(m.floor(half), half);
    Value signedPower = math::CopySignOp::create(m.builder(), power, x);
    Value isNegative = m.both(m.compare(arith::CmpFPredicate::OLT, x, zero),
                              m.compare(arith::CmpFPredicate::ONE, size,
                                        m.constant(x, std::numeric_limits<float>::infinity())));
    Value nan = m.constant(x, std::nan(""));
    Value ofFraction = m.select(isNegative, nan, power);
    Value result = m.select(isWhole, m.select(isEven, power, signedPower), ofFraction);
    // 1^y, (-1)^inf and x^0 are 1, even if y or x is NaN.
    Value isOne = m.both(m.equal(size, one), m.either(isEven, m.equal(x, one)));
    isOne = m.either(isOne, m.equal(y, zero));
    rewriter.replaceOp(op, m.select(isOne, one, result));
    return success();
  }
};

/// Computes exp2 of f32 in f64.
struct WidenExp2 : OpRewritePattern<math::Exp2Op> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::Exp2Op op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "is not of f32");
    MathBuilder m(op.getLoc(), rewriter);
    Value wide = m.convert(op.getOperand(), rewriter.getF64Type());
    rewriter.replaceOp(op, m.convert(m.unary<math::Exp2Op>(wide), rewriter.getF32Type()));
    return success();
  }
};

} // namespace

void parashard::codegen::populateMathPatterns(RewritePatternSet &patterns, bool hasExp2) {
  constexpr int kBeforeOthers = 10;
  if (!hasExp2)
    patterns.add<WidenExp2>(patterns.getContext(), kBeforeOthers);
  patterns.add<ExpandCircular<math::SinOp>, ExpandCircular<math::CosOp>, ExpandAtan, ExpandPow>(
      patterns.getContext(), kBeforeOthers);
}
