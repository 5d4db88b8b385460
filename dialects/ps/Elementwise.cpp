// Implements unary elementwise ops: evaluation, code and derivatives.
#include "dialects/ps/Activations.h"
#include "dialects/ps/ElementwiseSupport.h"
#include "dialects/ps/FoldSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace parashard::ps;

using Results = FailureOr<llvm::SmallVector<Tensor>>;
using Cotangents = FailureOr<llvm::SmallVector<Value>>;
using Operands = llvm::ArrayRef<Tensor>;

/// Defines a floating-point unary op. VALUE is its value for a double x, and CODE emits its code
/// for scalars or vectors x. DERIVATIVE builds the operand's cotangent from the result's cotangent
/// g, the operand x and the result y.
#define PS_UNARY(OP, VALUE, CODE, DERIVATIVE)                                                      \
  ShardingRule OP::getShardingRule() { return elementwiseRule(*this); }                            \
  LoweringKind OP::getLoweringKind() { return LoweringKind::Elementwise; }                         \
  Results OP::evaluate(Operands operands, const EvaluateContext &) {                               \
    return mapElements(*this, [&](int64_t i) -> double {                                           \
      double x = operands[0].get(i);                                                               \
      return VALUE;                                                                                \
    });                                                                                            \
  }                                                                                                \
  Value OP::emitElement(ElementBuilder &e, ValueRange scalars) {                                   \
    return emitWide(e, scalars, [&](ValueRange wide) -> Value {                                    \
      Value x = wide[0];                                                                           \
      return CODE;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  Cotangents OP::differentiate(BackwardBuilder &builder, ValueRange cotangents) {                  \
    [[maybe_unused]] Value x = getOperand(), y = getResult();                                      \
    return differentiateUnary(builder, cotangents,                                                 \
                              [&](BackwardMath &m, Value g) -> Value { return DERIVATIVE; });      \
  }

static Value emitSigmoid(ElementBuilder &e, Value x) {
  Value one = e.constant(x, 1);
  return e.div(one, e.add(one, e.unary<math::ExpOp>(e.neg(x))));
}

/// Emits max(x, 0) + log1p(exp(-|x|)).
static Value emitSoftplus(ElementBuilder &e, Value x) {
  Value positive = arith::MaximumFOp::create(e.builder(), e.getLoc(), x, e.constant(x, 0));
  Value rest = e.unary<math::ExpOp>(e.neg(e.unary<math::AbsFOp>(x)));
  return e.add(positive, e.unary<math::Log1pOp>(rest));
}

PS_UNARY(ExpOp, std::exp(x), e.unary<math::ExpOp>(x), m.mul(g, y))
PS_UNARY(LogOp, std::log(x), e.unary<math::LogOp>(x), m.div(g, x))
PS_UNARY(Expm1Op, std::expm1(x), e.unary<math::ExpM1Op>(x), m.mul(g, m.unary<ExpOp>(x)))
PS_UNARY(Log1pOp, std::log1p(x), e.unary<math::Log1pOp>(x), m.div(g, m.add(x, m.constant(x, 1))))
PS_UNARY(SqrtOp, std::sqrt(x), e.unary<math::SqrtOp>(x), m.div(m.scale(g, 0.5), y))
PS_UNARY(RsqrtOp, 1 / std::sqrt(x), e.div(e.constant(x, 1), e.unary<math::SqrtOp>(x)),
         m.mul(m.scale(g, -0.5), m.mul(y, m.mul(y, y))))
PS_UNARY(TanhOp, std::tanh(x), e.unary<math::TanhOp>(x),
         m.mul(g, m.sub(m.constant(y, 1), m.mul(y, y))))
PS_UNARY(ErfOp, std::erf(x), e.unary<math::ErfOp>(x),
         m.scale(m.mul(g, m.unary<ExpOp>(m.neg(m.mul(x, x)))),
                 1.12837916709551257390)) // 2 / sqrt(pi)
PS_UNARY(SinOp, std::sin(x), e.unary<math::SinOp>(x), m.mul(g, m.unary<CosOp>(x)))
PS_UNARY(CosOp, std::cos(x), e.unary<math::CosOp>(x), m.neg(m.mul(g, m.unary<SinOp>(x))))
PS_UNARY(AtanOp, std::atan(x), e.unary<math::AtanOp>(x),
         m.div(g, m.add(m.mul(x, x), m.constant(x, 1))))
PS_UNARY(SigmoidOp, 1 / (1 + std::exp(-x)), emitSigmoid(e, x),
         m.mul(g, m.mul(y, m.sub(m.constant(y, 1), y))))
PS_UNARY(ReluOp, x > 0 || x != x ? x : 0.0,
         arith::MaximumFOp::create(e.builder(), e.getLoc(), x, e.constant(x, 0)),
         m.select(m.compare(Predicate::Gt, y, m.constant(y, 0)), g, m.constant(g, 0)))
PS_UNARY(SiluOp, x / (1 + std::exp(-x)), e.mul(x, emitSigmoid(e, x)), (m.binary<SiluGradOp>(g, x)))
PS_UNARY(SoftplusOp, (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))), emitSoftplus(e, x),
         m.mul(g, m.unary<SigmoidOp>(x)))
PS_UNARY(FloorOp, std::floor(x), e.unary<math::FloorOp>(x), Value())
PS_UNARY(CeilOp, std::ceil(x), e.unary<math::CeilOp>(x), Value())
PS_UNARY(TruncOp, std::trunc(x), e.unary<math::TruncOp>(x), Value())
PS_UNARY(RoundOp, std::nearbyint(x), e.unary<math::RoundEvenOp>(x), Value())
#undef PS_UNARY

//===----------------------------------------------------------------------===//
// neg, abs, not: for integers and bools too
//===----------------------------------------------------------------------===//

ShardingRule NegOp::getShardingRule() { return elementwiseRule(*this, {{0}}); }
LoweringKind NegOp::getLoweringKind() { return LoweringKind::Elementwise; }
Results NegOp::evaluate(Operands operands, const EvaluateContext &) {
  const Tensor &x = operands[0];
  return x.isFloat() ? mapElements(*this, [&](int64_t i) { return -x.get(i); })
                     : mapElements(*this, [&](int64_t i) { return -x.getInt(i); });
}
Value NegOp::emitElement(ElementBuilder &e, ValueRange scalars) { return e.neg(scalars[0]); }
Cotangents NegOp::differentiate(BackwardBuilder &builder, ValueRange cotangents) {
  return differentiateUnary(builder, cotangents, [](BackwardMath &m, Value g) { return m.neg(g); });
}
OpFoldResult NegOp::fold(FoldAdaptor adaptor) {
  if (auto inner = getOperand().getDefiningOp<NegOp>())
    return inner.getOperand();
  return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/true);
}

ShardingRule AbsOp::getShardingRule() { return elementwiseRule(*this); }
LoweringKind AbsOp::getLoweringKind() { return LoweringKind::Elementwise; }
Results AbsOp::evaluate(Operands operands, const EvaluateContext &) {
  const Tensor &x = operands[0];
  return x.isFloat()
             ? mapElements(*this, [&](int64_t i) { return std::fabs(x.get(i)); })
             : mapElements(*this, [&](int64_t i) { return int64_t(std::abs(x.getInt(i))); });
}
Value AbsOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(getType()));
  return isFloat ? e.unary<math::AbsFOp>(scalars[0]) : e.unary<math::AbsIOp>(scalars[0]);
}
Cotangents AbsOp::differentiate(BackwardBuilder &builder, ValueRange cotangents) {
  Value x = getOperand();
  return differentiateUnary(builder, cotangents, [&](BackwardMath &m, Value g) {
    Value zero = m.constant(x, 0);
    Value below = m.select(m.compare(Predicate::Lt, x, zero), m.neg(g), zero);
    return m.select(m.compare(Predicate::Gt, x, zero), g, below);
  });
}

ShardingRule NotOp::getShardingRule() { return elementwiseRule(*this); }
LoweringKind NotOp::getLoweringKind() { return LoweringKind::Elementwise; }
Results NotOp::evaluate(Operands operands, const EvaluateContext &) {
  return mapElements(*this, [&](int64_t i) { return int64_t(!operands[0].getInt(i)); });
}
Value NotOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  return arith::XOrIOp::create(e.builder(), e.getLoc(), scalars[0], e.constant(scalars[0], 1));
}
Cotangents NotOp::differentiate(BackwardBuilder &, ValueRange) {
  return llvm::SmallVector<Value>(1);
}
OpFoldResult NotOp::fold(FoldAdaptor adaptor) {
  if (auto inner = getOperand().getDefiningOp<NotOp>())
    return inner.getOperand();
  return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/true);
}

//===----------------------------------------------------------------------===//
// gelu, gelu_grad and silu_grad
//===----------------------------------------------------------------------===//

static constexpr double kSqrtHalf = 0.70710678118654752440;
static constexpr double kInvSqrt2Pi = 0.39894228040143267794;
static constexpr double kSqrt2OverPi = 0.79788456080286535588;
static constexpr double kCubic = 0.044715;

double parashard::ps::evaluateGelu(GeluKind kind, double x) {
  if (kind == GeluKind::Erf)
    return 0.5 * x * (1 + std::erf(x * kSqrtHalf));
  return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x)));
}

double parashard::ps::evaluateGeluSlope(GeluKind kind, double x) {
  if (kind == GeluKind::Erf)
    return 0.5 * (1 + std::erf(x * kSqrtHalf)) + x * kInvSqrt2Pi * std::exp(-0.5 * x * x);
  double t = std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kSqrt2OverPi * (1 + 3 * kCubic * x * x);
}

/// Emits the factor of x in the GELU: (1 + erf(x / sqrt 2)) / 2, or (1 + tanh(y)) / 2. The latter
/// is sigmoid(2 y), which needs fewer instructions and has no cancellation.
static Value emitGate(ElementBuilder &e, GeluKind kind, Value x) {
  Value half = e.constant(x, 0.5);
  if (kind == GeluKind::Erf)
    return e.fma(half, e.unary<math::ErfOp>(e.mul(x, e.constant(x, kSqrtHalf))), half);
  Value square = e.mul(x, x);
  return emitSigmoid(e, e.mul(x, e.fma(square, e.constant(x, 2 * kSqrt2OverPi * kCubic),
                                       e.constant(x, 2 * kSqrt2OverPi))));
}

/// Emits the derivative of the GELU at x. With p = (1 + t) / 2 for t = tanh(...), the derivative of
/// tanh is 1 - t^2 = 4 p (1 - p).
static Value emitSlope(ElementBuilder &e, GeluKind kind, Value x) {
  Value gate = emitGate(e, kind, x), square = e.mul(x, x);
  if (kind == GeluKind::Erf) {
    Value density =
        e.mul(e.constant(x, kInvSqrt2Pi), e.unary<math::ExpOp>(e.mul(e.constant(x, -0.5), square)));
    return e.fma(x, density, gate);
  }
  Value inner =
      e.fma(square, e.constant(x, 6 * kCubic * kSqrt2OverPi), e.constant(x, 2 * kSqrt2OverPi));
  Value bell = e.mul(gate, e.sub(e.constant(x, 1), gate));
  return e.fma(e.mul(x, bell), inner, gate);
}

ShardingRule GeluOp::getShardingRule() { return elementwiseRule(*this); }
LoweringKind GeluOp::getLoweringKind() { return LoweringKind::Elementwise; }
Results GeluOp::evaluate(Operands operands, const EvaluateContext &) {
  return mapElements(*this, [&](int64_t i) { return evaluateGelu(getKind(), operands[0].get(i)); });
}
Value GeluOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  return emitWide(e, scalars,
                  [&](ValueRange x) { return e.mul(x[0], emitGate(e, getKind(), x[0])); });
}
Cotangents GeluOp::differentiate(BackwardBuilder &builder, ValueRange cotangents) {
  return differentiateUnary(builder, cotangents, [&](BackwardMath &, Value g) -> Value {
    return builder.make<GeluGradOp>(g.getType(), getKind(), g, getOperand());
  });
}

ShardingRule GeluGradOp::getShardingRule() { return elementwiseRule(*this, {{0}}); }
LoweringKind GeluGradOp::getLoweringKind() { return LoweringKind::Elementwise; }
Results GeluGradOp::evaluate(Operands operands, const EvaluateContext &) {
  return mapElements(*this, [&](int64_t i) {
    return operands[0].get(i) * evaluateGeluSlope(getKind(), operands[1].get(i));
  });
}
Value GeluGradOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  return emitWide(e, scalars,
                  [&](ValueRange v) { return e.mul(v[0], emitSlope(e, getKind(), v[1])); });
}

ShardingRule SiluGradOp::getShardingRule() { return elementwiseRule(*this, {{0}}); }
LoweringKind SiluGradOp::getLoweringKind() { return LoweringKind::Elementwise; }
Results SiluGradOp::evaluate(Operands operands, const EvaluateContext &) {
  return mapElements(*this, [&](int64_t i) {
    double x = operands[1].get(i), gate = 1 / (1 + std::exp(-x));
    return operands[0].get(i) * gate * (1 + x * (1 - gate));
  });
}
Value SiluGradOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  return emitWide(e, scalars, [&](ValueRange v) {
    Value x = v[1], gate = emitSigmoid(e, x), one = e.constant(x, 1);
    return e.mul(v[0], e.mul(gate, e.fma(x, e.sub(one, gate), one)));
  });
}
