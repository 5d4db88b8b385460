// Implements access to the arguments and results of a node, and the table of converters.
#include "lib/Import/Pt2/Convert.h"
#include "lib/Import/Pt2/GraphConverter.h"
#include "shared/Counts.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

Type getElementType(ScalarType dtype, MLIRContext *context) {
  Builder b(context);
  switch (dtype) {
  case 1:
    return b.getIntegerType(8, /*isSigned=*/false);
  case 2:
    return b.getIntegerType(8);
  case 3:
    return b.getIntegerType(16);
  case 4:
    return b.getIntegerType(32);
  case 5:
    return b.getIntegerType(64);
  case 6:
    return b.getF16Type();
  case 7:
    return b.getF32Type();
  case 8:
    return b.getF64Type();
  case 12:
    return b.getI1Type();
  case 13:
    return b.getBF16Type();
  default:
    return {};
  }
}

std::string getDtypeName(ScalarType dtype) {
  static constexpr StringLiteral names[] = {
      "unknown", "uint8",   "int8",      "int16",     "int32",      "int64", "float16",
      "float32", "float64", "complex32", "complex64", "complex128", "bool",  "bfloat16"};
  if (dtype >= 0 && dtype < int64_t(std::size(names)))
    return ("torch." + names[dtype]).str();
  switch (dtype) {
  case 28:
    return "torch.uint16";
  case 29:
    return "torch.float8_e4m3fn";
  case 30:
    return "torch.float8_e5m2";
  default:
    return "number " + std::to_string(dtype);
  }
}

namespace {

/// Returns the category of a type in type promotion: 0 for bool, 1 for integers, 2 for
/// floating-point.
int getCategory(Type type) { return isa<FloatType>(type) ? 2 : type.isInteger(1) ? 0 : 1; }

Type promoteWithin(Type a, Type b) {
  if (a == b)
    return a;
  unsigned widthA = a.getIntOrFloatBitWidth(), widthB = b.getIntOrFloatBitWidth();
  if (isa<FloatType>(a) && widthA == widthB)
    return Float32Type::get(a.getContext()); // f16 and bf16
  if (isa<IntegerType>(a) && widthA == widthB)
    return IntegerType::get(a.getContext(), 16); // signed and unsigned bytes
  return widthA > widthB ? a : b;
}

} // namespace

Type promoteTypes(Value lhs, Value rhs) {
  Type a = getElement(lhs), b = getElement(rhs);
  int categoryA = getCategory(a), categoryB = getCategory(b);
  bool scalarA = getRank(lhs) == 0, scalarB = getRank(rhs) == 0;
  if (scalarA != scalarB) {
    if (scalarA && categoryA <= categoryB)
      return b;
    if (scalarB && categoryB <= categoryA)
      return a;
  }
  if (categoryA != categoryB)
    return categoryA > categoryB ? a : b;
  return promoteWithin(a, b);
}

Type promoteTypes(Value tensor, Scalar scalar) {
  Type type = getElement(tensor);
  if (scalar.isFloat && !isa<FloatType>(type))
    return Float32Type::get(type.getContext());
  if (!scalar.isBool && type.isInteger(1))
    return IntegerType::get(type.getContext(), 64);
  return type;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

const Argument *NodeConverter::find(StringRef name) {
  readArguments.insert(name);
  return node.find(name);
}

bool NodeConverter::has(StringRef name) {
  const Argument *argument = find(name);
  return argument && argument->kind != Argument::None;
}

bool NodeConverter::isTensor(StringRef name) {
  const Argument *argument = find(name);
  return argument && argument->kind == Argument::Tensor;
}

const Argument *NodeConverter::require(StringRef name) {
  const Argument *argument = find(name);
  if (!argument || argument->kind == Argument::None)
    (void)fail("has no argument '" + name + "'");
  return argument;
}

Value NodeConverter::tensor(StringRef name) {
  if (Value value = optionalTensor(name))
    return value;
  (void)fail("has no tensor '" + name + "'");
  return splat(RankedTensorType::get({}, f32()), 0); // never used, since the node has failed
}

Value NodeConverter::optionalTensor(StringRef name) {
  const Argument *argument = find(name);
  return argument && argument->kind == Argument::Tensor ? graph.lookup(argument->names[0])
                                                        : Value();
}

SmallVector<Value> NodeConverter::tensors(StringRef name) {
  SmallVector<Value> values;
  if (const Argument *argument = require(name))
    for (const std::string &value : argument->names)
      values.push_back(value.empty() ? Value() : graph.lookup(value));
  return values;
}

int64_t NodeConverter::evaluate(const Size &size) {
  Expected<int64_t> value = graph.getSizes().evaluate(size, graph.getGraph());
  if (value)
    return *value;
  (void)fail(llvm::toString(value.takeError()));
  return 0;
}

int64_t NodeConverter::integer(StringRef name) {
  const Argument *argument = require(name);
  return argument && !argument->sizes.empty() ? evaluate(argument->sizes[0]) : 0;
}

int64_t NodeConverter::integer(StringRef name, int64_t fallback) {
  return has(name) ? integer(name) : fallback;
}

SmallVector<int64_t> NodeConverter::integers(StringRef name) {
  SmallVector<int64_t> values;
  if (const Argument *argument = find(name))
    for (const Size &size : argument->sizes)
      values.push_back(evaluate(size));
  return values;
}

double NodeConverter::number(StringRef name, double fallback) {
  return has(name) ? scalar(name).value : fallback;
}

bool NodeConverter::boolean(StringRef name, bool fallback) {
  const Argument *argument = find(name);
  return argument && argument->kind == Argument::Bool ? argument->bools[0] : fallback;
}

std::string NodeConverter::string(StringRef name) {
  const Argument *argument = find(name);
  return argument && argument->kind == Argument::String ? argument->names[0] : "";
}

void NodeConverter::markBatchNumber(const Size &size) {
  // There are two exceptions. A sum over samples that is divided by a multiple of the batch size is
  // a mean, which does not depend on the batch size. The length of an arange is the size of a
  // tensor, so it may depend on the batch size.
  const SizeBinding &sizes = graph.getSizes();
  StringRef op = node.target;
  bool divides = op.starts_with("aten.div.") || op.starts_with("aten.true_divide.");
  if (op.starts_with("aten.arange.") || !sizes.dependsOnBatch(size, graph.getGraph()) ||
      (divides && sizes.isMultipleOfBatch(size, graph.getGraph())))
    return;
  graph.markBatchNumber(loc);
}

Scalar NodeConverter::scalar(StringRef name) {
  const Argument *argument = require(name);
  if (!argument)
    return {};
  switch (argument->kind) {
  case Argument::Int:
    markBatchNumber(argument->sizes[0]);
    return {double(evaluate(argument->sizes[0])), false, false};
  case Argument::Float:
    return {argument->floats[0], true, false};
  case Argument::Bool:
    return {double(argument->bools[0]), false, true};
  default:
    (void)fail("has an argument '" + name + "' that is not a number");
    return {};
  }
}

/// Returns true for arguments that have no effect on the imported ops. Most of them only affect the
/// memory of a tensor, which the compiler plans. The result types already contain `dtype`.
static bool isPlacement(StringRef name) {
  return is_contained(
      {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy"}, name);
}

LogicalResult NodeConverter::checkRead() {
  SmallVector<std::string> unread;
  for (const Argument &argument : node.inputs)
    if (argument.kind != Argument::None && !readArguments.contains(argument.name) &&
        !isPlacement(argument.name) && !(argument.name == "out" && node.isInPlace()))
      unread.push_back("'" + argument.name + "'");
  if (unread.empty())
    return success();
  return fail("has the argument " + llvm::join(unread, " and the argument ") +
              ", which is not supported; omit it");
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

bool NodeConverter::isUsed(unsigned result) const {
  return result < node.outputs.size() && !node.outputs[result].empty();
}

RankedTensorType NodeConverter::getResultType(unsigned result) {
  if (result >= node.outputs.size()) {
    (void)fail("has " + describeCount(node.outputs.size(), "result") + ", expected at least " +
               Twine(result + 1));
    return RankedTensorType::get({}, f32());
  }
  Expected<RankedTensorType> type = graph.getType(node.outputs[result]);
  if (type)
    return *type;
  (void)fail(llvm::toString(type.takeError()));
  return RankedTensorType::get({}, f32());
}

LogicalResult NodeConverter::set(unsigned result, Value value) {
  if (failed() || !isUsed(result))
    return success(!failed());
  RankedTensorType expected = getResultType(result);
  if (failed())
    return failure();
  if (getShape(value) != expected.getShape())
    return fail("has a result of type " + debugString(value.getType()) +
                ", but the export records " + debugString(expected) +
                "; if the graph comes from run_decompositions, PyTorch may have recorded a wrong "
                "shape (torch 2.9 does for losses with reduction=\"none\"): export with "
                "parashard.export, or do not decompose the graph");
  graph.define(node.outputs[result], convert(value, expected.getElementType()));
  return success();
}

LogicalResult NodeConverter::write(StringRef name, Value value) {
  const Argument *argument = require(name);
  if (!argument || argument->kind != Argument::Tensor)
    return LogicalResult::failure();
  return graph.write(argument->names[0], value, loc);
}

SmallVector<int64_t> NodeConverter::reducedDims(Value value) {
  SmallVector<int64_t> dims = wrapDims(integers("dim"), getRank(value));
  if (any_of(dims, [&](int64_t dim) { return dim < 0 || dim >= getRank(value); })) {
    (void)fail("has a dim that " + debugString(value.getType()) + " does not have");
    dims.clear();
  }
  if (dims.empty())
    dims = llvm::to_vector(llvm::seq<int64_t>(0, getRank(value)));
  return dims;
}

//===----------------------------------------------------------------------===//
// The table of converters
//===----------------------------------------------------------------------===//

ConverterTable getConverterTable() {
  ConverterTable table;
  addArithmeticConverters(table);
  addUnaryConverters(table);
  addCompareConverters(table);
  addMovementConverters(table);
  addIndexingConverters(table);
  addCreationConverters(table);
  addContractionConverters(table);
  addReductionConverters(table);
  addSortConverters(table);
  addNormalizationConverters(table);
  addLossConverters(table);
  addPairLossConverters(table);
  addActivationConverters(table);
  addNormConverters(table);
  addEinsumConverters(table);
  addRearrangeConverters(table);
  addAttentionConverters(table);
  addConvolutionConverters(table);
  addPoolingConverters(table);
  addInterpolationConverters(table);
  addBatchNormConverters(table);
  return table;
}

ConverterFunction findConverter(const ConverterTable &table, const Node &node) {
  if (ConverterFunction exact = table.lookup(node.target))
    return exact;
  // Splits "aten.add_.Tensor" into namespace, op and overload.
  auto [space, rest] = StringRef(node.target).split('.');
  auto [op, overload] = rest.split('.');
  if (node.isInPlace())
    (void)overload.consume_back("_out"), op = op.rtrim('_');
  std::string pure = (space + "." + op).str();
  if (ConverterFunction exact = table.lookup(pure + "." + overload.str()))
    return exact;
  return table.lookup(pure);
}

bool isInlined(const Node &node) {
  return node.target == "higher_order.wrap_with_set_grad_enabled" ||
         node.target == "higher_order.wrap_with_autocast";
}

} // namespace parashard::import
