// Imports an `.onnx` model: reads it, binds its dims, and builds the module of level 0.
#include "lib/Import/Finish.h"
#include "lib/Import/Onnx/ConvertGraph.h"
#include "lib/Import/Onnx/DeclaredTypes.h"
#include "lib/Import/Onnx/Variables.h"
#include "lib/Import/Pt2/Sizes.h"
#include "lib/Import/Shapes.h"
#include "mlir/IR/Verifier.h"
#include "parashard/Import.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {
namespace {

/// Returns the symbol by which `--dim` refers to the named dim `name`. Replaces characters other
/// than letters and digits by '_'.
std::string getSymbolName(StringRef name) {
  std::string symbol;
  for (char c : name)
    symbol += isAlnum(c) ? c : '_';
  return symbol.empty() || isDigit(symbol[0]) ? "d" + symbol : symbol;
}

Size getSize(const onnx::TensorShapeProto::Dimension &dim, StringRef input, int index) {
  Size size;
  if (dim.has_dim_value() && dim.dim_value() >= 0) {
    size.value = dim.dim_value();
    return size;
  }
  size.hasHint = false;
  size.expression = dim.dim_param().empty() ? getSymbolName((input + "_" + Twine(index)).str())
                                            : getSymbolName(dim.dim_param());
  return size;
}

/// Builds the module of one model.
class OnnxModuleBuilder {
public:
  OnnxModuleBuilder(MLIRContext &context, const OnnxModel &model)
      : model(model), b(&context), loc(NameLoc::get(b.getStringAttr(model.getPath()))),
        converter(model, b) {}

  OwningOpRef<ModuleOp> build(const ImportOptions &options, std::vector<std::string> &notes) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    (*module)->setAttr(kLevelMark, ps::LevelAttr::get(b.getContext(), ps::Level::Imported));
    b.setInsertionPointToEnd(module->getBody());
    for (const onnx::ValueInfoProto &output : model.getGraph().output())
      outputs.push_back(output.name());
    nodes = findLiveNodes(model.getGraph().node(), outputs, scope.live);
    std::string missing = converter.describeUnsupported(nodes);
    if (!missing.empty())
      return emitError(loc) << missing, OwningOpRef<ModuleOp>();
    if (failed(checkNames()) || failed(buildFunction(options, notes)))
      return {};
    removeDead(*module);
    numberRandomOps(*module);
    if (failed(checkText(*module)) || failed(verify(*module)))
      return {};
    return module;
  }

private:
  LogicalResult report(Error error) { return emitError(loc) << llvm::toString(std::move(error)); }

  LogicalResult checkNames() {
    llvm::StringSet<> names;
    for (const onnx::ValueInfoProto &input : model.getGraph().input())
      if (!names.insert(input.name()).second)
        return emitError(loc) << "two inputs of the model are named '" << input.name()
                              << "'; give each one a unique name";
    llvm::StringSet<> outputNames;
    for (const std::string &output : outputs)
      if (!outputNames.insert(output).second)
        return emitError(loc) << "two outputs of the model are named '" << output
                              << "'; give each one a unique name";
    for (const OnnxTensor &tensor : model.getTensors())
      names.insert(tensor.name);
    return converter.checkNames(model.getGraph().node(), std::move(names));
  }

  /// Reads the inputs as an `ExportedProgram`, for `SizeBinding`. Skips initializers, which old
  /// files list as inputs.
  LogicalResult readInputs(ExportedProgram &program) {
    for (const onnx::ValueInfoProto &input : model.getGraph().input()) {
      if (model.find(input.name()))
        continue;
      if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape())
        return emitError(loc) << "input '" << input.name()
                              << "' is not a tensor with a known number of dims";
      const onnx::TypeProto::Tensor &type = input.type().tensor_type();
      if (!getOnnxElementType(type.elem_type(), b.getContext()))
        return emitError(loc) << "input '" << input.name() << "' has the dtype "
                              << getOnnxDtypeName(type.elem_type()) << ", which is not supported";
      TensorMeta meta;
      for (auto [i, dim] : enumerate(type.shape().dim()))
        meta.sizes.push_back(getSize(dim, input.name(), i));
      program.graph.tensors[input.name()] = meta;
      program.inputs.push_back({InputSpec::User, input.name(), input.name(), true});
      elementTypes.push_back(getOnnxElementType(type.elem_type(), b.getContext()));
    }
    return success();
  }

  LogicalResult readInputTypes(const ImportOptions &options, std::vector<std::string> &notes,
                               SmallVector<Type> &types) {
    ExportedProgram program;
    if (failed(readInputs(program)))
      return failure();
    Expected<SizeBinding> sizes = SizeBinding::bind(
        program, {options.dims, options.batch, options.batchDims, options.batchFactor}, notes);
    if (!sizes)
      return report(sizes.takeError());
    for (auto [input, element] : zip(program.inputs, elementTypes)) {
      Expected<SmallVector<int64_t>> shape =
          sizes->evaluate(program.graph.tensors[input.name].sizes, program.graph);
      if (!shape)
        return report(shape.takeError());
      if (!isPossibleShape(*shape))
        return emitError(loc) << "input '" << input.name << "' has " << kImpossibleShape;
      types.push_back(RankedTensorType::get(*shape, element));
      inputs.push_back(input.name);
    }
    return success();
  }

  LogicalResult buildFunction(const ImportOptions &options, std::vector<std::string> &notes) {
    SmallVector<Type> types;
    if (failed(readInputTypes(options, notes, types)))
      return failure();
    Signature signature = readSignature(model.getGraph());
    std::vector<MissingParameter> missing = findMissing(model, signature, nodes);
    bool isFolded = hasFoldedConstants(model, signature);
    if (std::string text = describeMissing(missing, isFolded); !text.empty())
      emitWarning(loc) << text;
    if (std::string text = describeFoldedCopies(model, signature); !text.empty())
      emitWarning(loc) << text;
    for (const std::string &text : {describeUnnamed(missing, isFolded), describeOfParents(missing)})
      if (!text.empty())
        notes.push_back(text);
    OnnxVariables variables(model, signature, missing);
    if (Error e = variables.makeVariables(scope.live, b))
      return report(std::move(e));
    auto function = func::FuncOp::create(b, loc, "forward", b.getFunctionType(types, {}));
    Block *body = function.addEntryBlock();
    b.setInsertionPointToStart(body);
    for (auto [i, name] : enumerate(inputs)) {
      function.setArgAttr(i, kNameMark, b.getStringAttr(name));
      body->getArgument(i).setLoc(NameLoc::get(b.getStringAttr(name)));
      scope.values[name] = body->getArgument(i);
    }
    scope.opset = model.getOpset();
    if (Error e = variables.defineValues(scope.live, scope, b))
      return report(std::move(e));
    if (failed(converter.run(nodes, scope)))
      return failure();
    return finishFunction(function);
  }

  LogicalResult finishFunction(func::FuncOp function) {
    SmallVector<Value> results;
    for (const std::string &name : outputs) {
      Value value = scope.values.lookup(name);
      if (!value)
        return emitError(loc) << "output '" << name << "' is not a tensor that the graph defines";
      results.push_back(value);
    }
    if (results.empty())
      return emitError(loc) << "the model has no output";
    if (failed(checkDeclaredTypes(model.getGraph(), scope)))
      return failure();
    returnResults(b, function, results, outputs);
    return success();
  }

  const OnnxModel &model;
  OpBuilder b;
  Location loc;
  OnnxGraphConverter converter;
  OnnxScope scope;
  std::vector<const onnx::NodeProto *> nodes;
  std::vector<std::string> inputs, outputs;
  SmallVector<Type> elementTypes;
};

} // namespace

OwningOpRef<ModuleOp> importOnnx(MLIRContext &context, StringRef path, const ImportOptions &options,
                                 std::vector<std::string> &notes) {
  context.loadDialect<ps::PSDialect, func::FuncDialect>();
  Expected<import::OnnxModel> model = import::OnnxModel::open(path);
  if (!model) {
    emitError(UnknownLoc::get(&context)) << llvm::toString(model.takeError());
    return {};
  }
  return import::OnnxModuleBuilder(context, *model).build(options, notes);
}

} // namespace parashard::import
