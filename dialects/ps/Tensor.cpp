// Implements host tensors: element access, and conversion from and to attributes and bytes.
#include "dialects/ps/Tensor.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "shared/Philox.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace parashard::ps {
namespace {

unsigned getByteWidth(Type type) { return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8); }

double roundTo(FloatType type, double value) {
  if (type.isF64())
    return value;
  if (type.isF32())
    return float(value);
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

double readFloat(FloatType type, const char *bytes) {
  if (type.isF64()) {
    double value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, getByteWidth(type));
  return llvm::APFloat(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits))
      .convertToDouble();
}

void writeFloat(FloatType type, double value, char *bytes) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  uint64_t bits = number.bitcastToAPInt().getZExtValue();
  std::memcpy(bytes, &bits, getByteWidth(type));
}

int64_t truncateTo(IntegerType type, int64_t value) {
  if (type.getWidth() == 1)
    return value != 0;
  if (type.isUnsigned())
    return int64_t(uint64_t(value) & llvm::maskTrailingOnes<uint64_t>(type.getWidth()));
  return llvm::SignExtend64(uint64_t(value), type.getWidth());
}

/// Returns the largest or smallest value of an integer type, to which infinities convert.
int64_t getExtreme(IntegerType type, bool largest) {
  unsigned width = type.getWidth();
  if (width == 1 || type.isUnsigned())
    return largest ? int64_t(llvm::maskTrailingOnes<uint64_t>(width)) : 0;
  return largest ? llvm::maxIntN(width) : llvm::minIntN(width);
}

} // namespace

Tensor::Tensor(RankedTensorType type) : type(type) {
  if (isFloat())
    floats.assign(type.getNumElements(), 0);
  else
    ints.assign(type.getNumElements(), 0);
}

Tensor Tensor::fromBytes(RankedTensorType type, ArrayRef<char> bytes) {
  Tensor tensor(type);
  unsigned width = getByteWidth(type.getElementType());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const char *source = bytes.data() + i * width;
    if (auto floatType = dyn_cast<FloatType>(type.getElementType())) {
      tensor.floats[i] = readFloat(floatType, source);
    } else {
      uint64_t bits = 0;
      std::memcpy(&bits, source, width);
      tensor.ints[i] = truncateTo(cast<IntegerType>(type.getElementType()), int64_t(bits));
    }
  }
  return tensor;
}

Tensor Tensor::fromAttr(ElementsAttr attr) {
  auto type = cast<RankedTensorType>(attr.getShapedType());
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr))
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      return fromBytes(type, blob->getData());
  Tensor tensor(type);
  auto dense = cast<DenseElementsAttr>(attr);
  if (tensor.isFloat()) {
    for (auto [i, value] : llvm::enumerate(dense.getValues<llvm::APFloat>()))
      tensor.floats[i] = value.convertToDouble();
    return tensor;
  }
  auto element = cast<IntegerType>(type.getElementType());
  for (auto [i, value] : llvm::enumerate(dense.getValues<llvm::APInt>()))
    tensor.ints[i] = truncateTo(element, int64_t(value.getZExtValue()));
  return tensor;
}

std::vector<char> Tensor::toBytes() const {
  unsigned width = getByteWidth(type.getElementType());
  std::vector<char> bytes(size() * width);
  for (int64_t i = 0; i < size(); ++i) {
    if (auto floatType = dyn_cast<FloatType>(type.getElementType()))
      writeFloat(floatType, floats[i], bytes.data() + i * width);
    else
      std::memcpy(bytes.data() + i * width, &ints[i], width);
  }
  return bytes;
}

/// Returns whether all elements have the same bits. Example: 0 and -0 differ.
template <typename T> static bool isUniform(const std::vector<T> &values) {
  for (const T &value : values)
    if (std::bit_cast<uint64_t>(value) != std::bit_cast<uint64_t>(values.front()))
      return false;
  return !values.empty();
}

DenseElementsAttr Tensor::toAttr() const {
  if (auto floatType = dyn_cast<FloatType>(type.getElementType())) {
    auto convert = [&](double value) {
      llvm::APFloat number(value);
      bool losesInfo;
      number.convert(floatType.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
      return number;
    };
    if (isUniform(floats))
      return DenseElementsAttr::get(type, ArrayRef(convert(floats.front())));
    return DenseElementsAttr::get(type, llvm::map_to_vector(floats, convert));
  }
  unsigned width = type.getElementTypeBitWidth();
  auto convert = [&](int64_t value) {
    return llvm::APInt(width, uint64_t(value) & llvm::maskTrailingOnes<uint64_t>(width));
  };
  if (isUniform(ints))
    return DenseElementsAttr::get(type, ArrayRef(convert(ints.front())));
  return DenseElementsAttr::get(type, llvm::map_to_vector(ints, convert));
}

void Tensor::set(int64_t i, double value) {
  if (auto floatType = dyn_cast<FloatType>(type.getElementType()))
    floats[i] = roundTo(floatType, value);
  else if (std::isnan(value))
    setInt(i, 0);
  else if (std::abs(value) >= 0x1p63)
    setInt(i, getExtreme(cast<IntegerType>(type.getElementType()), value > 0));
  else
    setInt(i, int64_t(value));
}

void Tensor::setInt(int64_t i, int64_t value) {
  if (auto integer = dyn_cast<IntegerType>(type.getElementType()))
    ints[i] = truncateTo(integer, value);
  else
    set(i, double(value));
}

void Tensor::fillUnspecified() {
  floats.assign(floats.size(), std::numeric_limits<double>::quiet_NaN());
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  int64_t odd = integer && integer.getWidth() > 8 ? -30000 : 1;
  ints.assign(ints.size(), odd);
}

SmallVector<int64_t> Tensor::getStrides() const {
  SmallVector<int64_t> strides(getRank());
  int64_t stride = 1;
  for (int64_t d = getRank(); d-- > 0; stride *= getShape()[d])
    strides[d] = stride;
  return strides;
}

int64_t Tensor::linearize(ArrayRef<int64_t> index) const {
  int64_t linear = 0;
  for (auto [position, size] : llvm::zip(index, getShape()))
    linear = linear * size + position;
  return linear;
}

SmallVector<int64_t> Tensor::delinearize(int64_t linear) const {
  SmallVector<int64_t> index(getRank());
  for (int64_t d = getRank(); d-- > 0; linear /= getShape()[d])
    index[d] = linear % getShape()[d];
  return index;
}

Tensor Tensor::convertTo(Type element) const {
  if (element == type.getElementType())
    return *this;
  Tensor result(RankedTensorType::get(type.getShape(), element));
  for (int64_t i = 0; i < size(); ++i)
    if (isFloat())
      result.set(i, get(i));
    else
      result.setInt(i, getInt(i));
  return result;
}

Tensor Tensor::reshaped(RankedTensorType newType) const {
  Tensor result = *this;
  result.type = newType;
  return result;
}

float philoxUniform(uint64_t seed, int64_t opKey, int64_t step, uint64_t counter) {
  return psrt::philoxUniform(psrt::philoxKey(seed, opKey, step), counter);
}

} // namespace parashard::ps
