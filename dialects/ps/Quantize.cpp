// Rounding to scaled 8-bit floats: what it means and its code.
#include "dialects/ps/ElementwiseSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace parashard::ps;

using Results = FailureOr<llvm::SmallVector<Tensor>>;

namespace {
/// What there is to know of a format.
struct Format {
  float largest;
  int mantissa, smallestExponent; ///< bits; of normal numbers

  explicit Format(Float8Format format)
      : largest(format == Float8Format::E4M3 ? 448 : 57344),
        mantissa(format == Float8Format::E4M3 ? 3 : 2),
        smallestExponent(format == Float8Format::E4M3 ? -6 : -14) {}
};

/// Scales beyond would leave f32.
constexpr int kMostExponent = 100;
constexpr int kBias = 127, kFractionBits = 23; // of f32

float quantize(const Format &format, float x, float amax, int64_t margin) {
  int exponent = 0;
  if (amax > 0 && std::isfinite(amax))
    exponent = std::clamp<int64_t>(int64_t(std::ilogb(format.largest / amax)) - margin,
                                   -kMostExponent, kMostExponent);
  float scaled = std::ldexp(x, exponent);
  if (std::isnan(scaled))
    return scaled;
  scaled = std::clamp(scaled, -format.largest, format.largest);
  int place = scaled == 0 ? 0 : std::max(std::ilogb(scaled), format.smallestExponent);
  place -= format.mantissa;
  return std::ldexp(std::ldexp(std::nearbyint(std::ldexp(scaled, -place)), place), -exponent);
}

/// Code on the bits of f32 numbers, scalars or vectors.
class BitCode {
public:
  BitCode(ElementBuilder &e, Value like) : e(e), b(e.builder()), real(like.getType()) {
    Type word = b.getI32Type();
    if (auto vector = dyn_cast<VectorType>(real))
      word = VectorType::get(vector.getShape(), word);
    bits = word;
  }

  Value number(int64_t value) {
    auto attr = b.getI32IntegerAttr(value);
    if (auto vector = dyn_cast<VectorType>(bits))
      return arith::ConstantOp::create(b, e.getLoc(), DenseElementsAttr::get(vector, attr));
    return arith::ConstantOp::create(b, e.getLoc(), attr);
  }
  /// The biased exponent of a number.
  Value getField(Value x) {
    Value word = arith::BitcastOp::create(b, e.getLoc(), bits, x);
    Value field = arith::ShRUIOp::create(b, e.getLoc(), word, number(kFractionBits));
    return arith::AndIOp::create(b, e.getLoc(), field, number(255));
  }
  /// The power of two with a biased exponent.
  Value getPower(Value field) {
    Value word = arith::ShLIOp::create(b, e.getLoc(), field, number(kFractionBits));
    return arith::BitcastOp::create(b, e.getLoc(), real, word);
  }
  /// 1 over it.
  Value getInverse(Value field) { return getPower(e.sub(number(2 * kBias), field)); }
  Value clamp(Value x, int64_t least, int64_t most) {
    Value low = arith::MaxSIOp::create(b, e.getLoc(), x, number(least));
    return arith::MinSIOp::create(b, e.getLoc(), low, number(most));
  }
  Value clamp(Value x, float most) {
    Value low = arith::MaximumFOp::create(b, e.getLoc(), x, e.constant(x, -most));
    return arith::MinimumFOp::create(b, e.getLoc(), low, e.constant(x, most));
  }

private:
  ElementBuilder &e;
  OpBuilder &b;
  Type real, bits;
};

Value emitQuantize(ElementBuilder &e, const Format &format, Value x, Value amax, int64_t margin) {
  BitCode code(e, x);
  Value zero = e.constant(amax, 0), infinity = e.constant(amax, INFINITY);
  Value isKnown =
      arith::AndIOp::create(e.builder(), e.getLoc(), e.compare(Predicate::Gt, amax, zero),
                            e.compare(Predicate::Lt, amax, infinity));
  Value field = code.getField(e.div(e.constant(amax, format.largest), amax));
  field =
      code.clamp(e.sub(field, code.number(margin)), kBias - kMostExponent, kBias + kMostExponent);
  field = e.select(isKnown, field, code.number(kBias));
  Value scaled = code.clamp(e.mul(x, code.getPower(field)), format.largest);
  Value place = code.clamp(code.getField(scaled), kBias + format.smallestExponent, 2 * kBias);
  place = e.sub(place, code.number(format.mantissa));
  Value rounded = e.unary<math::RoundEvenOp>(e.mul(scaled, code.getInverse(place)));
  return e.mul(e.mul(rounded, code.getPower(place)), code.getInverse(field));
}
} // namespace

ShardingRule QuantizeOp::getShardingRule() { return elementwiseRule(*this); }
LoweringKind QuantizeOp::getLoweringKind() { return LoweringKind::Elementwise; }

Results QuantizeOp::evaluate(llvm::ArrayRef<Tensor> operands, const EvaluateContext &) {
  return mapElements(*this, [&](int64_t i) -> double {
    return quantize(Format(getFormat()), operands[0].get(i), operands[1].get(i), getMargin());
  });
}

Value QuantizeOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  return emitWide(e, scalars, [&](ValueRange wide) {
    return emitQuantize(e, Format(getFormat()), wide[0], wide[1], getMargin());
  });
}

LogicalResult QuantizeOp::verify() {
  Type element = getElementTypeOrSelf(getOperand().getType());
  if (element.getIntOrFloatBitWidth() > 32)
    return emitOpError("takes an operand of 32 bits or 16, not ") << element << " (quantize_c1)";
  if (Type amax = getElementTypeOrSelf(getAmax().getType()); !amax.isF32())
    return emitOpError("takes amax as f32, not ") << amax << " (quantize_c1)";
  return success();
}
