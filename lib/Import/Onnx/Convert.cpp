// Implements access to the inputs, attributes and results of an ONNX node, and the table of
// converters.
#include "lib/Import/Onnx/Convert.h"
#include "lib/Import/HostValue.h"
#include "lib/Import/Shapes.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {

/// Maximum number of elements of a result that is folded to a constant, such as a size or scale.
static constexpr int64_t kMaxFoldedElements = 64;

Type getOnnxElementType(int32_t dtype, MLIRContext *context) {
  Builder b(context);
  switch (dtype) {
  case 1:
    return b.getF32Type();
  case 2:
    return b.getIntegerType(8, /*isSigned=*/false);
  case 3:
    return b.getIntegerType(8);
  case 5:
    return b.getIntegerType(16);
  case 6:
    return b.getIntegerType(32);
  case 7:
    return b.getIntegerType(64);
  case 9:
    return b.getI1Type();
  case 10:
    return b.getF16Type();
  case 11:
    return b.getF64Type();
  case 16:
    return b.getBF16Type();
  default:
    return {};
  }
}

/// Maximum number of elements for findTriangle, such as a mask of 8192 x 8192.
static constexpr int64_t kMaxTriangleElements = int64_t(1) << 26;

/// Matches a [.., n, n] tensor with one value where column <= row, and another value elsewhere.
/// Returns the bytes of both values, or nullopt for other tensors.
static std::optional<std::pair<StringRef, StringRef>> findTriangle(RankedTensorType type,
                                                                   StringRef bytes) {
  int64_t rank = type.getRank();
  if (rank < 2 || type.getDimSize(rank - 1) != type.getDimSize(rank - 2) ||
      type.getDimSize(rank - 1) < 2 || bytes.empty() ||
      type.getNumElements() > kMaxTriangleElements)
    return std::nullopt;
  int64_t size = type.getDimSize(rank - 1), width = bytes.size() / type.getNumElements();
  StringRef below = bytes.take_front(width), above = bytes.substr(width, width);
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    if (bytes.substr(i * width, width) != (i % size <= i / size % size ? below : above))
      return std::nullopt;
  return std::pair(below, above);
}

/// Builds a constant of more than `kMaxHostElements` elements from its bytes: a splat, or all
/// elements.
static Value buildLargeConstant(TensorBuilder &n, RankedTensorType type, StringRef bytes) {
  size_t width = bytes.size() / type.getNumElements();
  StringRef first = bytes.take_front(width);
  if (bytes.drop_front(width) == bytes.drop_back(width)) { // each element equals the one before
    auto scalar = RankedTensorType::get({}, type.getElementType());
    auto element = ps::Tensor::fromBytes(scalar, ArrayRef<char>(first.data(), width)).toAttr();
    return n.make<ps::ConstantOp>(element.resizeSplat(type));
  }
  if (!type.getElementType().isInteger(1))
    return n.make<ps::ConstantOp>(
        DenseElementsAttr::getFromRawBuffer(type, ArrayRef<char>(bytes.data(), bytes.size())));
  SmallVector<bool> values(bytes.begin(), bytes.end());
  return n.make<ps::ConstantOp>(DenseElementsAttr::get(type, ArrayRef<bool>(values)));
}

static Value buildTriangle(TensorBuilder &n, RankedTensorType type,
                           std::pair<StringRef, StringRef> elements) {
  auto splat = [&](StringRef bytes) {
    auto scalar = RankedTensorType::get({}, type.getElementType());
    ArrayRef<char> element(bytes.data(), bytes.size());
    return n.splat(type, ps::Tensor::fromBytes(scalar, element).get(0));
  };
  RankedTensorType indexType = type.clone(n.i64());
  Value row = n.make<ps::IotaOp>(indexType, type.getRank() - 2);
  Value column = n.make<ps::IotaOp>(indexType, type.getRank() - 1);
  Value isBelow = n.compare(ps::Predicate::Le, column, row);
  Value below = splat(elements.first), above = splat(elements.second);
  return n.make<ps::SelectOp>(isBelow, below, above);
}

Value buildOnnxConstant(TensorBuilder &n, RankedTensorType type, StringRef bytes) {
  if (std::optional<std::pair<StringRef, StringRef>> triangle = findTriangle(type, bytes))
    return buildTriangle(n, type, *triangle);
  if (type.getNumElements() > kMaxHostElements)
    return buildLargeConstant(n, type, bytes);
  return buildHostConstant(n,
                           ps::Tensor::fromBytes(type, ArrayRef<char>(bytes.data(), bytes.size())));
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

bool OnnxNode::has(unsigned i) {
  readInputs.insert(i);
  return i < unsigned(node.input_size()) && !node.input(i).empty();
}

Value OnnxNode::optionalInput(unsigned i) {
  if (!has(i))
    return {};
  Value value = scope.values.lookup(node.input(i));
  if (!value)
    (void)fail("reads '" + node.input(i) + "', which is not a tensor");
  return value;
}

Value OnnxNode::input(unsigned i) {
  if (Value value = optionalInput(i))
    return value;
  (void)fail("has no input " + Twine(i));
  return splat(RankedTensorType::get({}, f32()), 0); // never used, since the node has failed
}

SmallVector<Value> OnnxNode::inputs() {
  SmallVector<Value> values;
  for (unsigned i = 0; i < getNumInputs(); ++i)
    values.push_back(input(i));
  return values;
}

const SmallVector<Value> *OnnxNode::sequence(unsigned i) {
  auto it = has(i) ? scope.sequences.find(node.input(i)) : scope.sequences.end();
  if (it != scope.sequences.end())
    return &it->second;
  (void)fail("has an input " + Twine(i) + " that is not a sequence of known length");
  return nullptr;
}

std::optional<ps::Tensor> OnnxNode::constantInput(unsigned i) {
  Value value = input(i);
  std::optional<ps::Tensor> tensor = failed() ? std::nullopt : evaluateOnHost(value);
  if (!tensor)
    (void)fail("has an input " + Twine(i) +
               " that depends on inputs or variables of the model; it must be known at import");
  return tensor;
}

SmallVector<int64_t> OnnxNode::integersInput(unsigned i) {
  SmallVector<int64_t> values;
  std::optional<ps::Tensor> tensor = constantInput(i);
  if (!tensor)
    return values;
  if (tensor->isFloat()) {
    (void)fail("has an input " + Twine(i) + " of floats; expected integers");
    return values;
  }
  for (int64_t at = 0; at < tensor->size(); ++at)
    values.push_back(tensor->getInt(at));
  return values;
}

std::optional<double> OnnxNode::numberInput(unsigned i) {
  Value value = optionalInput(i);
  std::optional<ps::Tensor> tensor = value ? evaluateOnHost(value) : std::nullopt;
  if (!tensor || tensor->size() == 0)
    return std::nullopt;
  for (int64_t at = 1; at < tensor->size(); ++at)
    if (tensor->get(at) != tensor->get(0))
      return std::nullopt;
  return tensor->get(0);
}

std::pair<Value, Value> OnnxNode::broadcastInputs(unsigned lhs, unsigned rhs) {
  Value x = input(lhs), y = input(rhs);
  if (failed())
    return {x, y};
  SmallVector<int64_t> shape = commonShape(x, y);
  return {broadcast(x, shape), broadcast(y, shape)};
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static StringRef getKindName(int32_t kind) {
  static constexpr StringLiteral names[] = {"no kind",        "float",   "integer", "string",
                                            "tensor",         "graph",   "floats",  "integers",
                                            "strings",        "tensors", "graphs",  "sparse tensor",
                                            "sparse tensors", "type",    "types"};
  return kind >= 0 && size_t(kind) < std::size(names) ? names[kind] : "an unknown kind";
}

const onnx::AttributeProto *OnnxNode::resolve(const onnx::AttributeProto &attribute) const {
  return attribute.ref_attr_name().empty() ? &attribute
                                           : scope.attributes.lookup(attribute.ref_attr_name());
}

const onnx::AttributeProto *OnnxNode::findAttribute(StringRef name) const {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return resolve(attribute);
  return nullptr;
}

const onnx::AttributeProto *OnnxNode::attribute(StringRef name, OnnxKind kind) {
  readAttributes.insert(name);
  const onnx::AttributeProto *found = findAttribute(name);
  if (found && found->type() && found->type() != int32_t(kind))
    (void)fail("has the attribute '" + name + "' of kind " + getKindName(found->type()) +
               "; expected " + getKindName(int32_t(kind)));
  return found;
}

int64_t OnnxNode::integer(StringRef name, int64_t fallback) {
  const onnx::AttributeProto *found = attribute(name, OnnxKind::Int);
  return found ? found->i() : fallback;
}

double OnnxNode::number(StringRef name, double fallback) {
  const onnx::AttributeProto *found = attribute(name, OnnxKind::Float);
  return found ? found->f() : fallback;
}

std::string OnnxNode::string(StringRef name, StringRef fallback) {
  const onnx::AttributeProto *found = attribute(name, OnnxKind::String);
  return found ? found->s() : fallback.str();
}

SmallVector<int64_t> OnnxNode::integers(StringRef name) {
  const onnx::AttributeProto *found = attribute(name, OnnxKind::Ints);
  if (!found)
    return {};
  return SmallVector<int64_t>(found->ints().begin(), found->ints().end());
}

SmallVector<int64_t> OnnxNode::integersOf(StringRef name, unsigned i) {
  return has(i) ? integersInput(i) : integers(name);
}

int64_t OnnxNode::axis(int64_t fallback, int64_t rank) {
  int64_t signedAxis = integer("axis", fallback), dim = wrapDim(signedAxis, rank);
  if (dim >= 0 && dim < rank)
    return dim;
  (void)fail("has the axis " + Twine(signedAxis) + " in a tensor with " +
             describeCount(rank, "dim"));
  return 0;
}

bool OnnxNode::checkShape(ArrayRef<int64_t> shape) {
  if (!isPossibleShape(shape))
    (void)fail("has a result with " + kImpossibleShape);
  return !failed();
}

/// Describes an attribute for a message. Example: "'mode' = 'CRD'".
static std::string describeAttribute(StringRef name, const onnx::AttributeProto &value) {
  std::string text;
  raw_string_ostream out(text);
  out << "'" << name << "' = ";
  switch (OnnxKind(value.type())) {
  case OnnxKind::Float:
    out << value.f();
    break;
  case OnnxKind::Int:
    out << value.i();
    break;
  case OnnxKind::String:
    out << "'" << value.s() << "'";
    break;
  case OnnxKind::Floats:
    out << interleaved_array(value.floats());
    break;
  case OnnxKind::Ints:
    out << interleaved_array(value.ints());
    break;
  default:
    out << "a value of kind " << getKindName(value.type());
  }
  return text;
}

LogicalResult OnnxNode::checkRead() {
  SmallVector<std::string> unread;
  llvm::StringSet<> names;
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    if (!names.insert(attribute.name()).second)
      return fail("has two attributes '" + attribute.name() + "'; export the model again");
    const onnx::AttributeProto *value = resolve(attribute);
    if (value && !readAttributes.contains(attribute.name()))
      unread.push_back(describeAttribute(attribute.name(), *value));
  }
  if (!unread.empty())
    return fail("has the attribute " + llvm::join(unread, " and the attribute ") +
                ", which is not supported; export the model without it");
  for (auto [i, name] : enumerate(node.input()))
    if (!name.empty() && !readInputs.contains(i))
      return fail("has an input " + Twine(i) + ", '" + name +
                  "', which is not supported; export the model without it");
  for (auto [i, name] : enumerate(node.output()))
    if (!name.empty() && !knownResults.contains(i))
      return fail("has a result " + Twine(i) + ", '" + name +
                  "', which this op does not define; export the model again");
  return success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

bool OnnxNode::isUsed(unsigned result) {
  knownResults.insert(result);
  return result < getNumResults() && !node.output(result).empty();
}

LogicalResult OnnxNode::set(unsigned result, Value value) {
  if (failed())
    return failure();
  if (!isUsed(result))
    return success();
  if (!checkShape(getShape(value)))
    return failure();
  bool isConstant = value.getDefiningOp<ps::ConstantOp>() || value.getDefiningOp<ps::IotaOp>();
  if (!isConstant && getType(value).getNumElements() <= kMaxFoldedElements)
    if (std::optional<ps::Tensor> tensor = evaluateOnHost(value))
      value = make<ps::ConstantOp>(tensor->toAttr());
  scope.values[node.output(result)] = value;
  return success();
}

LogicalResult OnnxNode::setSequence(SmallVector<Value> values) {
  if (failed())
    return failure();
  if (isUsed(0))
    scope.sequences[node.output(0)] = std::move(values);
  return success();
}

LogicalResult OnnxNode::onlyResults(unsigned first, StringRef description) {
  for (unsigned i = first; i < getNumResults(); ++i)
    if (isUsed(i) && scope.live.contains(node.output(i)))
      return fail("has the result '" + node.output(i) + "' (" + description +
                  "), which the model reads; this result is not supported");
  return success();
}

//===----------------------------------------------------------------------===//
// The table of converters
//===----------------------------------------------------------------------===//

std::string getOpName(const onnx::NodeProto &node) {
  bool isDefault = node.domain().empty() || node.domain() == "ai.onnx";
  return isDefault ? node.op_type() : node.domain() + "." + node.op_type();
}

OnnxConverterTable getOnnxConverterTable() {
  OnnxConverterTable table;
  addOnnxElementConverters(table);
  addOnnxActivationConverters(table);
  addOnnxLogicConverters(table);
  addOnnxShapeConverters(table);
  addOnnxCreationConverters(table);
  addOnnxIndexingConverters(table);
  addOnnxContractionConverters(table);
  addOnnxReductionConverters(table);
  addOnnxSortConverters(table);
  addOnnxNormalizationConverters(table);
  addOnnxLossConverters(table);
  addOnnxAttentionConverters(table);
  addOnnxWindowConverters(table);
  addOnnxResizeConverters(table);
  return table;
}

} // namespace parashard::import
