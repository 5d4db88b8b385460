// Implements scaled 8-bit floats: evaluation and code.
#include "dialects/ps/Float8.h"
#include "dialects/ps/ElementwiseSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace parashard::ps;

using Results = FailureOr<llvm::SmallVector<Tensor>>;

namespace {
constexpr int kBias = 127, kFractionBits = 23; // of f32

/// The parameters of an 8-bit format. Without the sign bit, the bits of a number are its index in
/// the ascending list of nonnegative numbers. Example: in e4m3, bits 0, 1, 2 are 0, 2^-9, 2^-8.
struct Format {
  float largest;
  int mantissa, smallestExponent; ///< mantissa bits; exponent of the smallest normal number
  int largestBits;                ///< bits of the largest finite number; infinities and NaNs follow

  explicit Format(Float8Format format)
      : largest(format == Float8Format::E4M3 ? 448 : 57344),
        mantissa(format == Float8Format::E4M3 ? 3 : 2),
        smallestExponent(format == Float8Format::E4M3 ? -6 : -14),
        largestBits(format == Float8Format::E4M3 ? 0x7e : 0x7b) {}
  explicit Format(Type element)
      : Format(isa<Float8E4M3FNType>(element) ? Float8Format::E4M3 : Float8Format::E5M2) {}
  /// Returns the exponent of the smallest subnormal number.
  int getSmallestUlp() const { return smallestExponent - mantissa; }
};

Format formatOf(Value value) { return Format(getElementTypeOrSelf(value.getType())); }

/// Largest magnitude of a scale's exponent, so that a scale and its inverse fit f32.
constexpr int kMostExponent = 100;

float findScale(const Format &format, float amax, int64_t margin) {
  if (!(amax > 0) || !std::isfinite(amax))
    return 1;
  int64_t exponent = margin - std::ilogb(format.largest / amax);
  return std::ldexp(1.0f, int(std::clamp<int64_t>(exponent, -kMostExponent, kMostExponent)));
}

/// Rounds x / scale to a number of the format.
float quantize(const Format &format, float x, float scale) {
  float scaled = std::ldexp(x, -std::ilogb(scale));
  if (std::isnan(scaled))
    return scaled;
  scaled = std::clamp(scaled, -format.largest, format.largest);
  int exponent = scaled == 0 ? 0 : std::max(std::ilogb(scaled), format.smallestExponent);
  int ulp = exponent - format.mantissa;
  return std::ldexp(std::nearbyint(std::ldexp(scaled, -ulp)), ulp);
}

/// Emits code on the bits of f32 numbers, scalars or vectors.
class BitCode {
public:
  BitCode(ElementBuilder &e, Value like) : e(e), b(e.builder()) {
    auto shaped = [&](Type element) -> Type {
      if (auto vector = dyn_cast<VectorType>(like.getType()))
        return VectorType::get(vector.getShape(), element);
      return element;
    };
    real = shaped(b.getF32Type());
    bits = shaped(b.getI32Type());
    bytes = shaped(b.getI8Type());
  }

  Value number(int64_t value) {
    auto attr = b.getI32IntegerAttr(int32_t(value));
    if (auto vector = dyn_cast<VectorType>(bits))
      return arith::ConstantOp::create(b, e.getLoc(), DenseElementsAttr::get(vector, attr));
    return arith::ConstantOp::create(b, e.getLoc(), attr);
  }
  Value getBits(Value x) { return arith::BitcastOp::create(b, e.getLoc(), bits, x); }
  Value getReal(Value x) { return arith::BitcastOp::create(b, e.getLoc(), real, x); }
  Value both(Value x, int64_t mask) {
    return arith::AndIOp::create(b, e.getLoc(), x, number(mask));
  }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, e.getLoc(), x, y); }
  Value up(Value x, int count) { return arith::ShLIOp::create(b, e.getLoc(), x, number(count)); }
  Value down(Value x, int count) { return arith::ShRUIOp::create(b, e.getLoc(), x, number(count)); }
  /// Returns the biased exponent of a number.
  Value getField(Value x) { return both(down(getBits(x), kFractionBits), 255); }
  /// Returns the power of two with a biased exponent.
  Value getPower(Value field) { return getReal(up(field, kFractionBits)); }
  /// Returns the inverse of the power of two with a biased exponent.
  Value getInverse(Value field) { return getPower(e.sub(number(2 * kBias), field)); }
  Value clamp(Value x, int64_t least, int64_t most) {
    Value low = arith::MaxSIOp::create(b, e.getLoc(), x, number(least));
    return arith::MinSIOp::create(b, e.getLoc(), low, number(most));
  }
  Value clamp(Value x, float most) {
    Value low = arith::MaximumFOp::create(b, e.getLoc(), x, e.constant(x, -most));
    return arith::MinimumFOp::create(b, e.getLoc(), low, e.constant(x, most));
  }
  Value toInteger(Value x) { return arith::FPToSIOp::create(b, e.getLoc(), bits, x); }
  Value toReal(Value x) { return arith::SIToFPOp::create(b, e.getLoc(), real, x); }
  Value toByte(Value x) { return arith::TruncIOp::create(b, e.getLoc(), bytes, x); }
  Value fromByte(Value x) { return arith::ExtUIOp::create(b, e.getLoc(), bits, x); }

private:
  ElementBuilder &e;
  OpBuilder &b;
  Type real, bits, bytes;
};

Value emitScale(ElementBuilder &e, const Format &format, Value amax, int64_t margin) {
  BitCode code(e, amax);
  Value zero = e.constant(amax, 0), infinity = e.constant(amax, INFINITY);
  Value isKnown =
      arith::AndIOp::create(e.builder(), e.getLoc(), e.compare(Predicate::Gt, amax, zero),
                            e.compare(Predicate::Lt, amax, infinity));
  Value field = code.getField(e.div(e.constant(amax, format.largest), amax));
  field = e.sub(code.number(2 * kBias + margin), field);
  field = code.clamp(field, kBias - kMostExponent, kBias + kMostExponent);
  return code.getPower(e.select(isKnown, field, code.number(kBias)));
}

/// Emits the 8 bits of x / scale. The magnitude is rounded to `count` ulps, where the ulp is a
/// power of two. `powers` is the index of this ulp among the ulps of the format. Each larger ulp
/// adds 2^mantissa numbers to the list of numbers (see `Format`), so the bits are count + (powers
/// << mantissa). Example in e4m3: 1 is 8 ulps of 2^-3. The smallest ulp is 2^-9, so `powers` is 6,
/// and the bits are 8 + (6 << 3) = 56.
Value emitQuantize(ElementBuilder &e, const Format &format, Value x, Value scale) {
  BitCode code(e, x);
  Value scaled = code.clamp(e.mul(x, code.getInverse(code.getField(scale))), format.largest);
  Value ulp = code.clamp(code.getField(scaled), kBias + format.smallestExponent, 2 * kBias);
  ulp = e.sub(ulp, code.number(format.mantissa));
  Value ulps = e.mul(e.unary<math::AbsFOp>(scaled), code.getInverse(ulp));
  Value count = code.toInteger(e.unary<math::RoundEvenOp>(ulps));
  Value powers = e.sub(ulp, code.number(kBias + format.getSmallestUlp()));
  Value size = e.add(count, code.up(powers, format.mantissa));
  size = e.select(e.compare(Predicate::Ne, x, x), code.number(0x7f), size);
  return code.toByte(code.either(size, code.both(code.down(code.getBits(scaled), 24), 0x80)));
}

/// Emits the value of 8 bits, in f32.
Value emitNumber(ElementBuilder &e, const Format &format, Value byte) {
  BitCode code(e, byte);
  Value word = code.fromByte(byte), size = code.both(word, 0x7f);
  int shift = kFractionBits - format.mantissa;
  Value fields = code.up(size, shift);
  // The 8-bit format and f32 have different exponent biases.
  int64_t bias = int64_t(kBias + format.smallestExponent - 1) << kFractionBits;
  Value normal = e.add(fields, code.number(bias));
  Value smallest = e.constant(code.toReal(size), std::ldexp(1.0, format.getSmallestUlp()));
  Value subnormal = code.getBits(e.mul(code.toReal(size), smallest));
  Value isSmall = e.compare(Predicate::Lt, size, code.number(1 << format.mantissa));
  Value found = e.select(isSmall, subnormal, normal);
  Value isNumber = e.compare(Predicate::Le, size, code.number(format.largestBits));
  found = e.select(isNumber, found, code.either(fields, code.number(0x7f800000)));
  return code.getReal(code.either(found, code.up(code.both(word, 0x80), 24)));
}

LogicalResult verifyTypes(Operation *op, Value wide, Value scale, StringRef constraint) {
  if (Type element = getElementTypeOrSelf(wide.getType()); element.getIntOrFloatBitWidth() > 32)
    return op->emitOpError("has element type ")
           << element << ", expected a float of 32 or 16 bits (" << constraint << ")";
  if (Type type = getElementTypeOrSelf(scale.getType()); !type.isF32())
    return op->emitOpError("has scale type ") << type << ", expected f32 (" << constraint << ")";
  return success();
}
} // namespace

//===----------------------------------------------------------------------===//
// float8_scale
//===----------------------------------------------------------------------===//

ShardingRule Float8ScaleOp::getShardingRule() { return elementwiseRule(*this); }
LoweringKind Float8ScaleOp::getLoweringKind() { return LoweringKind::Elementwise; }

Results Float8ScaleOp::evaluate(llvm::ArrayRef<Tensor> operands, const EvaluateContext &) {
  return mapElements(*this, [&](int64_t i) -> double {
    return findScale(Format(getFormat()), operands[0].get(i), getMargin());
  });
}

Value Float8ScaleOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  return emitScale(e, Format(getFormat()), scalars[0], getMargin());
}

LogicalResult Float8ScaleOp::verify() {
  if (Type amax = getElementTypeOrSelf(getAmax().getType()); !amax.isF32())
    return emitOpError("has amax type ") << amax << ", expected f32 (float8_scale_c1)";
  return success();
}

//===----------------------------------------------------------------------===//
// quantize
//===----------------------------------------------------------------------===//

ShardingRule QuantizeOp::getShardingRule() { return elementwiseRule(*this); }
LoweringKind QuantizeOp::getLoweringKind() { return LoweringKind::Elementwise; }

Results QuantizeOp::evaluate(llvm::ArrayRef<Tensor> operands, const EvaluateContext &) {
  return mapElements(*this, [&](int64_t i) -> double {
    return quantize(formatOf(getResult()), operands[0].get(i), operands[1].get(i));
  });
}

Value QuantizeOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  return emitQuantize(e, formatOf(getResult()), widen(e, scalars[0]), scalars[1]);
}

LogicalResult QuantizeOp::verify() {
  return verifyTypes(*this, getOperand(), getScale(), "quantize_c1");
}

//===----------------------------------------------------------------------===//
// dequantize
//===----------------------------------------------------------------------===//

ShardingRule DequantizeOp::getShardingRule() { return elementwiseRule(*this); }
LoweringKind DequantizeOp::getLoweringKind() { return LoweringKind::Elementwise; }

Results DequantizeOp::evaluate(llvm::ArrayRef<Tensor> operands, const EvaluateContext &) {
  return mapElements(*this,
                     [&](int64_t i) -> double { return operands[0].get(i) * operands[1].get(i); });
}

Value DequantizeOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  Value number = emitNumber(e, formatOf(getOperand()), scalars[0]);
  return narrow(e, e.mul(number, scalars[1]), getElementTypeOrSelf(getType()));
}

LogicalResult DequantizeOp::verify() {
  return verifyTypes(*this, getResult(), getScale(), "dequantize_c1");
}

std::optional<Quantized> parashard::ps::findQuantized(Value value) {
  auto dequantize = value.getDefiningOp<DequantizeOp>();
  auto spread = dequantize ? dequantize.getScale().getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!spread || !spread.getDims().empty())
    return std::nullopt;
  return Quantized{dequantize.getOperand(), spread.getOperand()};
}
