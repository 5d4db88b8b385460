// Converts Constant, ConstantOfShape, Range, EyeLike and Trilu.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"
#include "shared/Counts.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace parashard::import {

Value buildOnnxTensor(OnnxNode &n, const onnx::TensorProto &tensor) {
  Type element = getOnnxElementType(tensor.data_type(), n.b.getContext());
  if (!element) {
    (void)n.fail("has the dtype " + getOnnxDtypeName(tensor.data_type()) +
                 ", which is not supported");
    return {};
  }
  if (tensor.data_location() == 1) {
    (void)n.fail("has its value in another file, which is only supported for initializers");
    return {};
  }
  llvm::Expected<std::vector<char>> bytes = decodeTensor(tensor);
  if (!bytes) {
    (void)n.fail("has a value that cannot be read: " + llvm::toString(bytes.takeError()));
    return {};
  }
  auto type =
      RankedTensorType::get(ArrayRef<int64_t>(tensor.dims().data(), tensor.dims_size()), element);
  return buildOnnxConstant(n, type, StringRef(bytes->data(), bytes->size()));
}

namespace {

LogicalResult convertConstant(OnnxNode &n) {
  if (const onnx::AttributeProto *value = n.attribute("value", OnnxKind::Tensor)) {
    Value tensor = buildOnnxTensor(n, value->t());
    return tensor ? n.set(tensor) : failure();
  }
  auto makeList = [&](const auto &list, Type element) {
    auto type = RankedTensorType::get({int64_t(list.size())}, element);
    return n.make<ps::ConstantOp>(DenseElementsAttr::get(type, ArrayRef(list)));
  };
  if (const onnx::AttributeProto *value = n.attribute("value_int", OnnxKind::Int))
    return n.set(n.make<ps::ConstantOp>(
        DenseElementsAttr::get(RankedTensorType::get({}, n.i64()), int64_t(value->i()))));
  if (const onnx::AttributeProto *value = n.attribute("value_float", OnnxKind::Float))
    return n.set(n.splat(RankedTensorType::get({}, n.f32()), value->f()));
  if (const onnx::AttributeProto *value = n.attribute("value_ints", OnnxKind::Ints))
    return n.set(
        makeList(SmallVector<int64_t>(value->ints().begin(), value->ints().end()), n.i64()));
  if (const onnx::AttributeProto *value = n.attribute("value_floats", OnnxKind::Floats))
    return n.set(
        makeList(SmallVector<float>(value->floats().begin(), value->floats().end()), n.f32()));
  return n.fail("has a value of a kind that is not supported (strings, sparse tensors)");
}

LogicalResult convertConstantOfShape(OnnxNode &n) {
  SmallVector<int64_t> shape = n.integersInput(0);
  const onnx::AttributeProto *attribute = n.attribute("value", OnnxKind::Tensor);
  Value value = attribute ? buildOnnxTensor(n, attribute->t())
                          : n.splat(RankedTensorType::get({1}, n.f32()), 0);
  if (n.failed())
    return failure();
  if (!n.checkShape(shape))
    return failure();
  if (getType(value).getNumElements() != 1)
    return n.fail("has a value that does not have exactly one element");
  value = n.broadcast(value, shape.empty() ? ArrayRef<int64_t>{1} : ArrayRef(shape));
  return n.failed() ? failure() : n.set(n.reshape(value, shape));
}

/// Builds start + step * index. All three inputs must be constants.
LogicalResult convertRange(OnnxNode &n) {
  std::optional<ps::Tensor> start = n.constantInput(0), limit = n.constantInput(1),
                            step = n.constantInput(2);
  if (n.failed() || !start->size() || !limit->size() || !step->size())
    return n.fail("has an empty bound or step");
  double from = start->get(0), by = step->get(0);
  double count = std::ceil((limit->get(0) - from) / by);
  if (by == 0 || !std::isfinite(count))
    return n.fail(
        llvm::formatv("counts from {0} to {1} by {2}; expected finite bounds and a step other "
                      "than 0",
                      from, limit->get(0), by)
            .str());
  SmallVector<int64_t> shape{int64_t(std::clamp(count, 0.0, 0x1p62))};
  if (!n.checkShape(shape))
    return failure();
  auto type = RankedTensorType::get(shape, start->getType().getElementType());
  Value value = n.make<ps::IotaOp>(type, 0);
  if (by != 1)
    value = n.make<ps::MulOp>(value, n.splat(type, by));
  if (from != 0)
    value = n.make<ps::AddOp>(value, n.splat(type, from));
  return n.set(value);
}

LogicalResult convertTrilu(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> diagonal = n.has(1) ? n.integersInput(1) : SmallVector<int64_t>{0};
  if (n.failed() || diagonal.size() != 1)
    return n.fail("has a diagonal `k` with " + describeCount(diagonal.size(), "element") +
                  "; expected a scalar constant");
  if (getRank(x) < 2)
    return n.fail("has an operand with " + describeCount(getRank(x), "dim") +
                  "; expected at least 2");
  return n.set(buildTriangle(n, x, diagonal[0],
                             n.integer("upper", 1) ? ps::Predicate::Ge : ps::Predicate::Le));
}

LogicalResult convertEyeLike(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  Type element = getElement(x);
  if (n.hasAttribute("dtype"))
    element = getOnnxElementType(n.integer("dtype", 0), n.b.getContext());
  if (!element)
    return n.fail("has the dtype " + getOnnxDtypeName(n.integer("dtype", 0)) +
                  ", which is not supported");
  if (getRank(x) != 2)
    return n.fail("has an input with " + describeCount(getRank(x), "dim") + "; expected 2");
  RankedTensorType indexType = n.typeLike(x, n.i64());
  Value row = n.make<ps::IotaOp>(indexType, 0), column = n.make<ps::IotaOp>(indexType, 1);
  if (int64_t diagonal = n.integer("k", 0))
    row = n.make<ps::AddOp>(row, n.splat(indexType, double(diagonal)));
  return n.set(n.convert(n.compare(ps::Predicate::Eq, row, column), element));
}

} // namespace

void addOnnxCreationConverters(OnnxConverterTable &table) {
  table["Constant"] = convertConstant;
  table["ConstantOfShape"] = convertConstantOfShape;
  table["Range"] = convertRange;
  table["Trilu"] = convertTrilu;
  table["EyeLike"] = convertEyeLike;
}

} // namespace parashard::import
