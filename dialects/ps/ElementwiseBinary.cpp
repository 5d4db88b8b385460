// Implements elementwise ops with several operands, and conversions.
#include "dialects/ps/ElementwiseSupport.h"
#include "dialects/ps/FoldSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"
#include <algorithm>
#include <cmath>
#include <functional>

using namespace mlir;
using namespace parashard::ps;

using Results = FailureOr<llvm::SmallVector<Tensor>>;
using Cotangents = FailureOr<llvm::SmallVector<Value>>;
using Operands = llvm::ArrayRef<Tensor>;

/// Returns the result whose elements are `onFloats(x, y)` or `onInts(x, y)`, for elements x and y
/// of the operands.
template <typename Floats, typename Ints>
static llvm::SmallVector<Tensor> mapPairs(Operation *op, Operands operands, Floats onFloats,
                                          Ints onInts) {
  const Tensor &x = operands[0], &y = operands[1];
  if (x.isFloat())
    return mapElements(op, [&](int64_t i) -> double { return onFloats(x.get(i), y.get(i)); });
  return mapElements(op, [&](int64_t i) -> int64_t { return onInts(x.getInt(i), y.getInt(i)); });
}

/// Defines a binary op. LINEAR initializes `ShardingRule::linear`. VALUE is the op's value for
/// doubles or ints x and y, and CODE emits its code. LEFT and RIGHT build the cotangents of x and y
/// from the cotangent g of the result z.
#define PS_BINARY(OP, LINEAR, VALUE, CODE, LEFT, RIGHT)                                            \
  ShardingRule OP::getShardingRule() {                                                             \
    llvm::SmallVector<llvm::SmallVector<unsigned, 2>> linear LINEAR;                               \
    return elementwiseRule(*this, linear);                                                         \
  }                                                                                                \
  LoweringKind OP::getLoweringKind() { return LoweringKind::Elementwise; }                         \
  Results OP::evaluate(Operands operands, const EvaluateContext &) {                               \
    auto value = [](auto x, auto y) { return VALUE; };                                             \
    return mapPairs(*this, operands, value, value);                                                \
  }                                                                                                \
  Value OP::emitElement(ElementBuilder &e, ValueRange scalars) {                                   \
    return emitWide(e, scalars, [&](ValueRange wide) -> Value {                                    \
      Value x = wide[0], y = wide[1];                                                              \
      return CODE;                                                                                 \
    });                                                                                            \
  }                                                                                                \
  Cotangents OP::differentiate(BackwardBuilder &builder, ValueRange cotangents) {                  \
    [[maybe_unused]] Value x = getLhs(), y = getRhs(), z = getResult();                            \
    return differentiateBinary(                                                                    \
        builder, cotangents, [&](BackwardMath &m, Value g) -> Value { return LEFT; },              \
        [&](BackwardMath &m, Value g) -> Value { return RIGHT; });                                 \
  }

/// Computes an integer sum, difference or product with wraparound.
template <typename Fn> static int64_t wrap(int64_t x, int64_t y, Fn fn) {
  return int64_t(fn(uint64_t(x), uint64_t(y)));
}
template <typename T, typename Fn> static T calculate(T x, T y, Fn fn) {
  if constexpr (std::is_integral_v<T>)
    return wrap(x, y, fn);
  else
    return fn(x, y);
}

/// Divides. An integer divided by 0 gives 0. An integer divided by -1 is negated and wraps around.
template <typename T> static T divide(T x, T y) {
  if constexpr (std::is_integral_v<T>)
    return y == 0 ? 0 : y == -1 ? wrap(0, x, std::minus()) : x / y;
  else
    return x / y;
}

/// Return the larger or smaller value; NaN if one is NaN.
template <typename T> static T larger(T x, T y) { return x != x || x > y ? x : y; }
template <typename T> static T smaller(T x, T y) { return x != x || x < y ? x : y; }

template <typename FloatOp, typename IntOp, typename BoolOp>
static Value emitExtreme(ElementBuilder &e, Value x, Value y) {
  Type element = getElementTypeOrSelf(x.getType());
  if (isa<FloatType>(element))
    return FloatOp::create(e.builder(), e.getLoc(), x, y);
  if (element.isInteger(1)) // i1 is unsigned: true is 1, not -1
    return BoolOp::create(e.builder(), e.getLoc(), x, y);
  return IntOp::create(e.builder(), e.getLoc(), x, y);
}

/// Returns the cotangent of operand `own` of a maximum or minimum: g where `predicate(own, other)`
/// is true, g / 2 where both operands are equal (as in PyTorch), else 0.
static Value chosen(BackwardMath &m, Predicate predicate, Value own, Value other, Value g) {
  Value share = m.select(m.compare(Predicate::Eq, own, other), m.scale(g, 0.5), m.constant(g, 0));
  return m.select(m.compare(predicate, own, other), g, share);
}

/// Returns the derivative of x^y by x: y x^(y - 1). The derivative is 0 for y = 0, even at x = 0.
static Value powSlope(BackwardMath &m, Value x, Value y) {
  Value zero = m.constant(y, 0);
  Value slope = m.mul(y, m.binary<PowOp>(x, m.sub(y, m.constant(y, 1))));
  return m.select(m.compare(Predicate::Eq, y, zero), zero, slope);
}

/// Returns the derivative of z = x^y by y: z log x. The derivative is 0 for x = 0 and y >= 0, as in
/// PyTorch.
static Value powExponentSlope(BackwardMath &m, Value x, Value y, Value z) {
  Value zero = m.constant(y, 0), slope = m.mul(z, m.unary<LogOp>(x));
  return m.select(m.compare(Predicate::Eq, x, zero),
                  m.select(m.compare(Predicate::Ge, y, zero), zero, slope), slope);
}

static constexpr double kLeastLog = -100;
static constexpr double kLeastSlopeDivisor = 1e-12;

static double binaryCrossEntropy(double p, double t) {
  return (t - 1) * larger(std::log1p(-p), kLeastLog) - t * larger(std::log(p), kLeastLog);
}

static Value emitBinaryCrossEntropy(ElementBuilder &e, Value p, Value t) {
  auto bounded = [&](Value logarithm) -> Value {
    return arith::MaximumFOp::create(e.builder(), e.getLoc(), logarithm,
                                     e.constant(logarithm, kLeastLog));
  };
  Value hit = bounded(e.unary<math::LogOp>(p));
  Value miss = bounded(e.unary<math::Log1pOp>(e.neg(p)));
  return e.sub(e.mul(e.sub(t, e.constant(t, 1)), miss), e.mul(t, hit));
}

/// Returns the derivative of binary cross-entropy by the probability.
static Value bceSlope(BackwardMath &m, Value p, Value t) {
  Value variance = m.mul(p, m.sub(m.constant(p, 1), p));
  return m.div(m.sub(p, t), m.binary<MaxOp>(variance, m.constant(p, kLeastSlopeDivisor)));
}

/// Returns the derivative of binary cross-entropy by the target.
static Value bceTargetSlope(BackwardMath &m, Value p) {
  Value least = m.constant(p, kLeastLog);
  return m.sub(m.binary<MaxOp>(m.unary<Log1pOp>(m.neg(p)), least),
               m.binary<MaxOp>(m.unary<LogOp>(p), least));
}

#define PS_GROUPS(...) = {__VA_ARGS__}
PS_BINARY(AddOp, PS_GROUPS({0, 1}), calculate(x, y, std::plus()), e.add(x, y), g, g)
PS_BINARY(SubOp, PS_GROUPS({0, 1}), calculate(x, y, std::minus()), e.sub(x, y), g, m.neg(g))
PS_BINARY(MulOp, PS_GROUPS({0}, {1}), calculate(x, y, std::multiplies()), e.mul(x, y), m.mul(g, y),
          m.mul(g, x))
PS_BINARY(DivOp, PS_GROUPS({0}), divide(x, y), e.div(x, y), m.div(g, y),
          m.neg(m.div(m.mul(g, z), y)))
PS_BINARY(MaxOp, PS_GROUPS(), larger(x, y),
          (emitExtreme<arith::MaximumFOp, arith::MaxSIOp, arith::OrIOp>(e, x, y)),
          chosen(m, Predicate::Gt, x, y, g), chosen(m, Predicate::Gt, y, x, g))
PS_BINARY(MinOp, PS_GROUPS(), smaller(x, y),
          (emitExtreme<arith::MinimumFOp, arith::MinSIOp, arith::AndIOp>(e, x, y)),
          chosen(m, Predicate::Lt, x, y, g), chosen(m, Predicate::Lt, y, x, g))
PS_BINARY(PowOp, PS_GROUPS(), std::pow(x, y), math::PowFOp::create(e.builder(), e.getLoc(), x, y),
          m.mul(g, powSlope(m, x, y)), m.mul(g, powExponentSlope(m, x, y, z)))
PS_BINARY(BinaryCrossEntropyOp, PS_GROUPS(), binaryCrossEntropy(x, y),
          emitBinaryCrossEntropy(e, x, y), m.mul(g, bceSlope(m, x, y)),
          m.mul(g, bceTargetSlope(m, x)))
#undef PS_BINARY

/// Defines a bitwise op. Integers only.
#define PS_BITWISE(OP, VALUE, ARITH)                                                               \
  ShardingRule OP::getShardingRule() { return elementwiseRule(*this); }                            \
  LoweringKind OP::getLoweringKind() { return LoweringKind::Elementwise; }                         \
  Results OP::evaluate(Operands operands, const EvaluateContext &) {                               \
    return mapElements(*this, [&](int64_t i) -> int64_t {                                          \
      int64_t x = operands[0].getInt(i), y = operands[1].getInt(i);                                \
      return VALUE;                                                                                \
    });                                                                                            \
  }                                                                                                \
  Value OP::emitElement(ElementBuilder &e, ValueRange scalars) {                                   \
    return ARITH::create(e.builder(), e.getLoc(), scalars[0], scalars[1]);                         \
  }                                                                                                \
  Cotangents OP::differentiate(BackwardBuilder &, ValueRange) {                                    \
    return llvm::SmallVector<Value>(2);                                                            \
  }
PS_BITWISE(AndOp, x &y, arith::AndIOp)
PS_BITWISE(OrOp, x | y, arith::OrIOp)
#undef PS_BITWISE

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isSplat(adaptor.getRhs(), 0))
    return getLhs();
  if (isSplat(adaptor.getLhs(), 0))
    return getRhs();
  return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/true);
}
OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (isSplat(adaptor.getRhs(), 0))
    return getLhs();
  return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/true);
}
OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (isSplat(adaptor.getRhs(), 1))
    return getLhs();
  if (isSplat(adaptor.getLhs(), 1))
    return getRhs();
  return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/true);
}
OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (isSplat(adaptor.getRhs(), 1))
    return getLhs();
  return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/true);
}

/// Folds `and` or `or`. On bools, `absorbing` is the constant that decides the result; the opposite
/// constant is the identity.
template <typename Op>
static OpFoldResult foldBits(Op op, typename Op::FoldAdaptor adaptor, double absorbing) {
  if (op.getLhs() == op.getRhs())
    return op.getLhs();
  if (getElementTypeOrSelf(op.getType()).isInteger(1))
    for (auto [constant, self, other] : {std::tuple(adaptor.getLhs(), op.getLhs(), op.getRhs()),
                                         {adaptor.getRhs(), op.getRhs(), op.getLhs()}}) {
      if (isSplat(constant, absorbing))
        return self;
      if (isSplat(constant, 1 - absorbing))
        return other;
    }
  return foldByEvaluation(op, adaptor.getOperands(), /*uniform=*/true);
}
OpFoldResult AndOp::fold(FoldAdaptor adaptor) { return foldBits(*this, adaptor, 0); }
OpFoldResult OrOp::fold(FoldAdaptor adaptor) { return foldBits(*this, adaptor, 1); }

namespace {
/// Replaces powers by cheaper ops, for the exponents 1, 2, 3, 4, 0.5 and -0.5.
struct SimplifyPow : OpRewritePattern<PowOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(PowOp op, PatternRewriter &rewriter) const override {
    Attribute exponent;
    if (auto constant = op.getRhs().getDefiningOp<ConstantOp>())
      exponent = constant.getValue();
    else if (auto spread = op.getRhs().getDefiningOp<BroadcastOp>())
      if (auto constant = spread.getOperand().getDefiningOp<ConstantOp>())
        exponent = constant.getValue();
    Value x = op.getLhs(), result;
    Location loc = op.getLoc();
    auto type = cast<RankedTensorType>(op.getType());
    auto make = [&]<typename Op>(auto... operands) {
      auto made = Op::create(rewriter, loc, type, operands...);
      copyMarks(op, made);
      if (Attribute shardings = op->getAttr(kShardingsMark))
        made->setAttr(kShardingsMark, shardings);
      return made.getResult();
    };
    if (isSplat(exponent, 1))
      result = x;
    else if (isSplat(exponent, 2))
      result = make.template operator()<MulOp>(x, x);
    else if (isSplat(exponent, 3))
      result = make.template operator()<MulOp>(x, make.template operator()<MulOp>(x, x));
    else if (isSplat(exponent, 4)) {
      Value square = make.template operator()<MulOp>(x, x);
      result = make.template operator()<MulOp>(square, square);
    } else if (isSplat(exponent, 0.5))
      result = make.template operator()<SqrtOp>(x);
    else if (isSplat(exponent, -0.5))
      result = make.template operator()<RsqrtOp>(x);
    else
      return rewriter.notifyMatchFailure(op, "the exponent is not a constant with a cheaper op");
    rewriter.replaceOp(op, result);
    return success();
  }
};
} // namespace

void PowOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<SimplifyPow>(context);
}

//===----------------------------------------------------------------------===//
// compare and select
//===----------------------------------------------------------------------===//

template <typename T> static bool holds(Predicate predicate, T x, T y) {
  switch (predicate) {
  case Predicate::Eq:
    return x == y;
  case Predicate::Ne:
    return x != y;
  case Predicate::Lt:
    return x < y;
  case Predicate::Le:
    return x <= y;
  case Predicate::Gt:
    return x > y;
  case Predicate::Ge:
    return x >= y;
  }
  llvm_unreachable("unknown predicate");
}

ShardingRule CompareOp::getShardingRule() { return elementwiseRule(*this); }
LoweringKind CompareOp::getLoweringKind() { return LoweringKind::Elementwise; }
Results CompareOp::evaluate(Operands operands, const EvaluateContext &) {
  const Tensor &x = operands[0], &y = operands[1];
  return mapElements(*this, [&](int64_t i) -> int64_t {
    return x.isFloat() ? holds(getPredicate(), x.get(i), y.get(i))
                       : holds(getPredicate(), x.getInt(i), y.getInt(i));
  });
}
Value CompareOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  return e.compare(getPredicate(), scalars[0], scalars[1]);
}
OpFoldResult CompareOp::fold(FoldAdaptor adaptor) {
  return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/true);
}

ShardingRule SelectOp::getShardingRule() { return elementwiseRule(*this, {{1, 2}}); }
LoweringKind SelectOp::getLoweringKind() { return LoweringKind::Elementwise; }
Results SelectOp::evaluate(Operands operands, const EvaluateContext &) {
  auto pick = [&](int64_t i) -> const Tensor & { return operands[operands[0].getInt(i) ? 1 : 2]; };
  return operands[1].isFloat() ? mapElements(*this, [&](int64_t i) { return pick(i).get(i); })
                               : mapElements(*this, [&](int64_t i) { return pick(i).getInt(i); });
}
Value SelectOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  return e.select(scalars[0], scalars[1], scalars[2]);
}
bool SelectOp::isDifferentiable(unsigned operand) { return operand > 0; }
Cotangents SelectOp::differentiate(BackwardBuilder &builder, ValueRange cotangents) {
  llvm::SmallVector<Value> answer(3);
  BackwardMath m(builder);
  Value g = cotangents[0];
  if (g && builder.needs(1))
    answer[1] = m.select(getCondition(), g, m.constant(g, 0));
  if (g && builder.needs(2))
    answer[2] = m.select(getCondition(), m.constant(g, 0), g);
  return answer;
}
OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  if (getOnTrue() == getOnFalse() || isSplat(adaptor.getCondition(), 1))
    return getOnTrue();
  if (isSplat(adaptor.getCondition(), 0))
    return getOnFalse();
  return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/true);
}

//===----------------------------------------------------------------------===//
// convert
//===----------------------------------------------------------------------===//

/// Returns a rule that is linear for conversions between floats: the sum of converted partial sums
/// equals the converted sum, up to rounding.
ShardingRule ConvertOp::getShardingRule() {
  bool floats = isa<FloatType>(getElementTypeOrSelf(getOperand().getType())) &&
                isa<FloatType>(getElementTypeOrSelf(getType()));
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>> linear;
  if (floats)
    linear.push_back({0});
  return elementwiseRule(*this, linear);
}
LoweringKind ConvertOp::getLoweringKind() { return LoweringKind::Elementwise; }

namespace {
/// Converts floats to integers: clamps a float to the range of i32 (i64 for wider results),
/// truncates it, and wraps it to the width of the result. NaN becomes 0. Examples: 300 becomes 44
/// as i8, as in PyTorch. Infinity becomes the largest f32 below 2^31 as i32.
struct IntegerRange {
  IntegerRange(Type from, Type to) {
    unsigned bits = to.getIntOrFloatBitWidth() <= 32 ? 32 : 64;
    least = -std::ldexp(1.0, bits - 1);
    most = from.isF64() ? std::nextafter(-least, 0.0) : double(std::nextafter(float(-least), 0.0f));
  }
  int64_t truncate(double x) const {
    return std::isnan(x) ? 0 : int64_t(std::clamp(x, least, most));
  }
  double least, most;
};
} // namespace

/// Truncates lanes of f32 or f64 to integers of the width of `to`.
static Value emitTruncation(ElementBuilder &e, Value x, Type to) {
  OpBuilder &b = e.builder();
  Location loc = e.getLoc();
  IntegerRange range(getElementTypeOrSelf(x.getType()), to);
  auto choose = [&](Value condition, Value other) {
    x = arith::SelectOp::create(b, loc, condition, x, other);
  };
  choose(e.compare(Predicate::Eq, x, x), e.constant(x, 0));
  choose(e.compare(Predicate::Lt, x, e.constant(x, range.most)), e.constant(x, range.most));
  choose(e.compare(Predicate::Gt, x, e.constant(x, range.least)), e.constant(x, range.least));
  unsigned width = to.getIntOrFloatBitWidth();
  auto lanes = [&](unsigned bits) -> Type {
    Type element = b.getIntegerType(bits);
    auto vector = dyn_cast<VectorType>(x.getType());
    return vector ? Type(vector.clone(element)) : element;
  };
  Value wide = arith::FPToSIOp::create(b, loc, lanes(width <= 32 ? 32 : 64), x);
  return width == 32 || width == 64 ? wide : arith::TruncIOp::create(b, loc, lanes(width), wide);
}

Results ConvertOp::evaluate(Operands operands, const EvaluateContext &) {
  const Tensor &x = operands[0];
  Type to = getElementTypeOrSelf(getType());
  if (to.isInteger(1))
    return mapElements(*this, [&](int64_t i) { return int64_t(x.get(i) != 0); });
  if (isa<FloatType>(to))
    return mapElements(*this,
                       [&](int64_t i) { return x.isFloat() ? x.get(i) : double(x.getInt(i)); });
  IntegerRange range(getElementTypeOrSelf(getOperand().getType()), to);
  return mapElements(
      *this, [&](int64_t i) { return x.isFloat() ? range.truncate(x.get(i)) : x.getInt(i); });
}

/// Returns whether integers of this type are zero-extended: bools and ui8.
static bool isUnsignedElement(Type element) {
  return element.isInteger(1) || element.isUnsignedInteger();
}

Value ConvertOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  Value x = scalars[0];
  Type from = getElementTypeOrSelf(getOperand().getType()), to = getElementTypeOrSelf(getType());
  if (from == to)
    return x;
  if (to.isInteger(1))
    return e.compare(Predicate::Ne, x, e.constant(x, 0));
  OpBuilder &b = e.builder();
  Location loc = e.getLoc();
  auto lanes = [&](Type element) -> Type {
    if (auto integer = dyn_cast<IntegerType>(element))
      element = IntegerType::get(element.getContext(),
                                 integer.getWidth()); // arith's integers are signless
    auto vector = dyn_cast<VectorType>(x.getType());
    return vector ? Type(VectorType::get(vector.getShape(), element)) : element;
  };
  unsigned fromWidth = from.getIntOrFloatBitWidth(), toWidth = to.getIntOrFloatBitWidth();
  if (isa<FloatType>(from) && isa<FloatType>(to)) {
    if (fromWidth == toWidth) // f16 and bf16
      x = arith::ExtFOp::create(b, loc, lanes(b.getF32Type()), x), fromWidth = 32;
    return narrow(e, x, to);
  }
  if (isa<FloatType>(to))
    return isUnsignedElement(from) ? Value(arith::UIToFPOp::create(b, loc, lanes(to), x))
                                   : Value(arith::SIToFPOp::create(b, loc, lanes(to), x));
  if (isa<FloatType>(from)) {
    if (fromWidth < 32)
      x = arith::ExtFOp::create(b, loc, lanes(b.getF32Type()), x);
    return emitTruncation(e, x, to);
  }
  if (fromWidth == toWidth)
    return x;
  if (fromWidth > toWidth)
    return arith::TruncIOp::create(b, loc, lanes(to), x);
  return isUnsignedElement(from) ? Value(arith::ExtUIOp::create(b, loc, lanes(to), x))
                                 : Value(arith::ExtSIOp::create(b, loc, lanes(to), x));
}

Cotangents ConvertOp::differentiate(BackwardBuilder &builder, ValueRange cotangents) {
  llvm::SmallVector<Value> answer(1);
  if (cotangents[0] && builder.needs(0))
    answer[0] = builder.make<ConvertOp>(getOperand().getType(), cotangents[0]);
  return answer;
}

OpFoldResult ConvertOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/true);
}

//===----------------------------------------------------------------------===//
// stop_gradient
//===----------------------------------------------------------------------===//

ShardingRule StopGradientOp::getShardingRule() { return elementwiseRule(*this, {{0}}); }
LoweringKind StopGradientOp::getLoweringKind() { return LoweringKind::Elementwise; }

Results StopGradientOp::evaluate(Operands operands, const EvaluateContext &) {
  return mapElements(*this, [&](int64_t i) { return operands[0].get(i); });
}

Value StopGradientOp::emitElement(ElementBuilder &, ValueRange scalars) { return scalars[0]; }

bool StopGradientOp::isDifferentiable(unsigned) { return false; }

Cotangents StopGradientOp::differentiate(BackwardBuilder &, ValueRange) {
  return llvm::SmallVector<Value>(1);
}

OpFoldResult StopGradientOp::fold(FoldAdaptor) {
  return (*this)->hasAttr(kPhaseMark) ? OpFoldResult(getOperand()) : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// by_mode
//===----------------------------------------------------------------------===//

/// Returns a rule that is linear in the operand of the current mode.
ShardingRule ByModeOp::getShardingRule() {
  return elementwiseRule(*this, {{getTraining() ? 0u : 1u}});
}
LoweringKind ByModeOp::getLoweringKind() { return LoweringKind::Elementwise; }

Results ByModeOp::evaluate(Operands operands, const EvaluateContext &) {
  const Tensor &x = operands[getTraining() ? 0 : 1];
  return mapElements(*this, [&](int64_t i) { return x.get(i); });
}

Value ByModeOp::emitElement(ElementBuilder &, ValueRange scalars) {
  return scalars[getTraining() ? 0 : 1];
}

Cotangents ByModeOp::differentiate(BackwardBuilder &builder, ValueRange cotangents) {
  llvm::SmallVector<Value> answer(2);
  unsigned chosenOperand = getTraining() ? 0 : 1;
  if (builder.needs(chosenOperand))
    answer[chosenOperand] = cotangents[0];
  return answer;
}

OpFoldResult ByModeOp::fold(FoldAdaptor) {
  if (!getTraining())
    return getInEvaluation();
  if ((*this)->hasAttr(kPhaseMark))
    return getInTraining();
  return {};
}
