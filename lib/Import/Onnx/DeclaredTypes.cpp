// Compares the types of values that a file declares with the types that the importer computes.
#include "lib/Import/Onnx/DeclaredTypes.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {
namespace {

/// A declared type. Symbolic sizes are dynamic.
struct DeclaredType {
  int32_t dtype = 0; ///< 0: not declared
  std::optional<SmallVector<int64_t>> shape;
};

std::optional<DeclaredType> readType(const onnx::ValueInfoProto &value) {
  if (!value.type().has_tensor_type())
    return std::nullopt;
  const onnx::TypeProto::Tensor &tensor = value.type().tensor_type();
  DeclaredType declared{tensor.elem_type(), std::nullopt};
  if (!tensor.has_shape())
    return declared;
  declared.shape.emplace();
  for (const onnx::TensorShapeProto::Dimension &dim : tensor.shape().dim())
    declared.shape->push_back(dim.has_dim_value() ? dim.dim_value() : ShapedType::kDynamic);
  return declared;
}

/// Formats a declared type. Example: "float32 [2, ?]".
std::string describe(const DeclaredType &declared) {
  std::string text = getOnnxDtypeName(declared.dtype);
  if (!declared.shape)
    return text;
  text += " [";
  for (auto [i, size] : enumerate(*declared.shape))
    text += (i ? ", " : "") + (size < 0 ? std::string("?") : std::to_string(size));
  return text + "]";
}

bool hasSameKind(const DeclaredType &declared, RankedTensorType type) {
  bool isSameElement =
      declared.dtype == 0 ||
      getOnnxElementType(declared.dtype, type.getContext()) == type.getElementType();
  return isSameElement && (!declared.shape || int64_t(declared.shape->size()) == type.getRank());
}

bool hasSameSizes(const DeclaredType &declared, RankedTensorType type) {
  return !declared.shape ||
         all_of(zip(*declared.shape, type.getShape()), [](std::tuple<int64_t, int64_t> sizes) {
           return std::get<0>(sizes) < 0 || std::get<0>(sizes) == std::get<1>(sizes);
         });
}

} // namespace

LogicalResult checkDeclaredTypes(const onnx::GraphProto &graph, const OnnxScope &scope) {
  bool hasWarned = false;
  for (const auto *values : {&graph.output(), &graph.value_info()})
    for (const onnx::ValueInfoProto &info : *values) {
      Value value = scope.values.lookup(info.name());
      std::optional<DeclaredType> declared = readType(info);
      if (!value || !declared)
        continue;
      auto type = cast<RankedTensorType>(value.getType());
      if (!hasSameKind(*declared, type))
        return emitError(value.getLoc())
               << "the file declares '" << info.name() << "' as " << describe(*declared)
               << ", and the graph computes " << type << "; export the model again";
      if (hasSameSizes(*declared, type) || std::exchange(hasWarned, true))
        continue;
      emitWarning(value.getLoc())
          << "the file declares '" << info.name() << "' as " << describe(*declared)
          << ", and the graph computes " << type
          << "; the declared shape is ignored; export the model with dynamic dims to avoid this "
             "warning";
    }
  return success();
}

} // namespace parashard::import
