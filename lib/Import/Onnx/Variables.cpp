// Chooses the kind of each initializer, and recovers the names of parameters that the exporter
// folded, merged or tied.
#include "lib/Import/Onnx/Variables.h"
#include "lib/Import/HostValue.h"
#include "lib/Import/Symbols.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {
namespace {

/// Maximum sizes in bytes of constants that are stored in the IR, not read from the file. The
/// second limit is for triangles (causal masks).
constexpr uint64_t kMaxInlineBytes = 1 << 14;
constexpr uint64_t kMaxTriangleBytes = 1 << 28;

StringRef getModule(StringRef parameter) { return parameter.rsplit('.').first; }
StringRef getLeaf(StringRef parameter) { return parameter.rsplit('.').second; }

/// Returns true if all elements are equal.
bool isUniform(StringRef bytes, unsigned elementSize) {
  for (size_t i = elementSize; i < bytes.size(); ++i)
    if (bytes[i] != bytes[i - elementSize])
      return false;
  return true;
}

/// Returns true for a [.., n, n] tensor with one value where column <= row, and another value
/// elsewhere.
bool isTriangle(const OnnxTensor &tensor, StringRef bytes) {
  size_t rank = tensor.dims.size(), element = getOnnxElementSize(tensor.dtype);
  if (rank < 2 || tensor.dims[rank - 1] != tensor.dims[rank - 2] || tensor.dims[rank - 1] < 2)
    return false;
  size_t size = tensor.dims[rank - 1];
  StringRef below = bytes.take_front(element), above = bytes.substr(element, element);
  for (size_t i = 0; i * element < bytes.size(); ++i)
    if (bytes.substr(i * element, element) != (i % size <= i / size % size ? below : above))
      return false;
  return true;
}

/// Returns, for each torch module, the parameters of other modules that its nodes read.
llvm::StringMap<SmallVector<StringRef>> findForeign(const Signature &signature,
                                                    ArrayRef<const onnx::NodeProto *> nodes) {
  llvm::StringMap<SmallVector<StringRef>> foreign;
  for (const onnx::NodeProto *node : nodes) {
    std::string module = getSourceLocation(*node, SourceLocation()).modulePath;
    for (const std::string &name : node->input())
      if (signature.kinds.lookup(name) == "PARAMETER" && getModule(name) != module &&
          !is_contained(foreign[module], name))
        foreign[module].push_back(name);
  }
  return foreign;
}

bool isMergedByValue(const OnnxModel &model, StringRef name) {
  const OnnxTensor *tensor = model.find(name);
  Expected<StringRef> bytes = model.getBytes(*tensor);
  if (!bytes) {
    consumeError(bytes.takeError());
    return false;
  }
  return isUniform(*bytes, getOnnxElementSize(tensor->dtype));
}

std::string listNames(ArrayRef<std::string> names) {
  constexpr size_t kMaxNames = 8;
  std::string text;
  for (const std::string &name : names.take_front(kMaxNames))
    text += (text.empty() ? "'" : ", '") + name + "'";
  if (names.size() > kMaxNames)
    text += formatv(" and {0} more", names.size() - kMaxNames).str();
  return text;
}

/// Searches the child modules of a missing parameter for a parameter with the same last name.
/// Example: heads of masked language models have one bias under two names, `X.bias` and
/// `X.decoder.bias`. The file contains only the name that a node reads.
void findOfChild(const OnnxModel &model, const Signature &signature, MissingParameter &parameter) {
  SmallVector<StringRef> children;
  for (const std::string &other : signature.parameters)
    if (model.find(other) && getLeaf(other) == getLeaf(parameter.name) &&
        getModule(getModule(other)) == getModule(parameter.name))
      children.push_back(other);
  parameter.isOfParent = children.size() == 1 && !getModule(parameter.name).empty();
  if (parameter.isOfParent)
    parameter.shared = children.front().str();
}

} // namespace

std::vector<MissingParameter> findMissing(const OnnxModel &model, const Signature &signature,
                                          ArrayRef<const onnx::NodeProto *> liveNodes) {
  std::vector<MissingParameter> missing;
  bool isFolded = hasFoldedConstants(model, signature);
  llvm::StringMap<SmallVector<StringRef>> foreignByModule = findForeign(signature, liveNodes);
  llvm::StringSet<> fused;
  for (const onnx::NodeProto *node : liveNodes)
    if (isFusedBatchNorm(*node))
      fused.insert(getSourceLocation(*node, SourceLocation()).modulePath);
  for (const std::string &name : signature.parameters) {
    if (model.find(name))
      continue;
    MissingParameter parameter{name, "", false, fused.contains(getModule(name))};
    if (parameter.isFused) {
      missing.push_back(std::move(parameter));
      continue;
    }
    // A module that reads only one parameter of another module indicates a tied parameter, unless
    // constants were folded.
    SmallVector<StringRef> foreign = foreignByModule.lookup(getModule(name));
    bool isOnlyOne = foreign.size() == 1 && !isFolded;
    for (StringRef other : foreign)
      if (model.find(other) && (getLeaf(other) == getLeaf(name) || isOnlyOne))
        parameter.shared = other.str();
    if (!parameter.shared.empty())
      parameter.isMerged = isMergedByValue(model, parameter.shared);
    else if (!isFolded)
      findOfChild(model, signature, parameter);
    missing.push_back(std::move(parameter));
  }
  return missing;
}

bool hasFoldedConstants(const OnnxModel &model, const Signature &signature) {
  return any_of(model.getTensors(),
                [&](const OnnxTensor &tensor) { return !signature.kinds.contains(tensor.name); });
}

/// Returns true if `copy` is the transpose of the matrix `original`.
static bool isTransposed(const OnnxModel &model, const OnnxTensor &copy,
                         const OnnxTensor &original) {
  if (copy.dims.size() != 2 || original.dims.size() != 2 || copy.dtype != original.dtype ||
      copy.dims[0] != original.dims[1] || copy.dims[1] != original.dims[0] || !copy.size)
    return false;
  Expected<StringRef> to = model.getBytes(copy), from = model.getBytes(original);
  if (!to || !from) {
    consumeError(to.takeError());
    consumeError(from.takeError());
    return false;
  }
  size_t rows = copy.dims[0], columns = copy.dims[1], size = getOnnxElementSize(copy.dtype);
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column)
      if (to->substr((row * columns + column) * size, size) !=
          from->substr((column * rows + row) * size, size))
        return false;
  return true;
}

std::string describeFoldedCopies(const OnnxModel &model, const Signature &signature) {
  std::vector<std::string> names;
  for (const OnnxTensor &copy : model.getTensors()) {
    if (signature.kinds.contains(copy.name) || !signature.isKnown)
      continue;
    for (const OnnxTensor &original : model.getTensors())
      if (signature.kinds.lookup(original.name) == "PARAMETER" &&
          isTransposed(model, copy, original))
        names.push_back(original.name);
  }
  if (names.empty())
    return "";
  return "the exporter folded a second use of " + listNames(names) +
         " into a constant, which training does not change; export with optimize=False";
}

std::string describeOfParents(ArrayRef<MissingParameter> missing) {
  std::vector<std::string> names;
  for (const MissingParameter &parameter : missing)
    if (parameter.isOfParent)
      names.push_back(parameter.name + "' for '" + parameter.shared);
  return names.empty() ? ""
                       : "parameters that are not in the file are treated as other names of "
                         "parameters of a child module: " +
                             listNames(names);
}

std::string describeUnnamed(ArrayRef<MissingParameter> missing, bool isFolded) {
  std::vector<std::string> names;
  for (const MissingParameter &parameter : missing)
    if (parameter.shared.empty() && !parameter.isFused)
      names.push_back(parameter.name);
  if (isFolded || names.empty())
    return "";
  return listNames(names) + (names.size() == 1 ? " is" : " are") +
         " not in the file: tied to another parameter, or unused; weights are written without " +
         (names.size() == 1 ? "this name" : "these names");
}

std::string describeMissing(ArrayRef<MissingParameter> missing, bool isFolded) {
  std::vector<std::string> folded, merged, fused, parts;
  for (const MissingParameter &parameter : missing)
    if (parameter.isFused)
      fused.push_back(parameter.name);
    else if (parameter.shared.empty() && isFolded)
      folded.push_back(parameter.name);
    else if (parameter.isMerged)
      merged.push_back(parameter.name + "' with '" + parameter.shared);
  if (!folded.empty())
    parts.push_back(formatv("{0} of the model's parameters are not in the file by name and cannot "
                            "be trained; the exporter folded them into constants or dropped them: "
                            "{1}",
                            folded.size(), listNames(folded)));
  if (!merged.empty())
    parts.push_back(formatv("{0} parameters were merged with others of equal value and are trained "
                            "as one: {1}",
                            merged.size(), listNames(merged)));
  if (!fused.empty())
    parts.push_back(
        formatv("the exporter fused batch norms into the weights before them; the fused weights "
                "keep their names and can be trained, but {0} parameters of the norms cannot be "
                "trained: {1}",
                fused.size(), listNames(fused)));
  return parts.empty() ? "" : join(parts, "; ") + "; export with optimize=False";
}

ps::VariableKind OnnxVariables::getKind(const OnnxTensor &tensor, Type element) const {
  // Without metadata, float tensors are parameters. Scalars are constants, such as ratios and
  // scales.
  if (!signature.isKnown && !signature.kinds.contains(tensor.name))
    return isa<FloatType>(element) && !tensor.dims.empty() ? ps::VariableKind::Parameter
                                                           : ps::VariableKind::Constant;
  std::string kind = signature.kinds.lookup(tensor.name);
  return kind == "PARAMETER" ? ps::VariableKind::Parameter
         : kind == "BUFFER"  ? ps::VariableKind::Buffer
                             : ps::VariableKind::Constant;
}

Expected<RankedTensorType> OnnxVariables::getType(const OnnxTensor &tensor,
                                                  MLIRContext *context) const {
  if (Type element = getOnnxElementType(tensor.dtype, context))
    return RankedTensorType::get(tensor.dims, element);
  return createStringError("'" + model.getPath() + "': initializer '" + tensor.name +
                           "' has the dtype " + getOnnxDtypeName(tensor.dtype) +
                           ", which is not supported");
}

Error OnnxVariables::makeVariable(const OnnxTensor &tensor, RankedTensorType type,
                                  ps::VariableKind kind, OpBuilder &builder) {
  SmallVector<StringRef> names{tensor.name};
  for (const MissingParameter &parameter : missing)
    if (parameter.shared == tensor.name)
      names.push_back(parameter.name);
  // Sorts names in the order of the torch model, since weight files use the first name. In the ONNX
  // file, the exporter may have kept any of the names.
  stable_sort(names, [&](StringRef a, StringRef b) {
    return find(signature.parameters, a) < find(signature.parameters, b);
  });
  Attribute init;
  if (tensor.isRaw) {
    std::string location = (model.getPath() + ":" + tensor.name).str();
    init = ps::FileAttr::get(builder.getContext(), builder.getStringAttr(location), {}, {}, {});
  } else {
    init = DenseElementsAttr::getFromRawBuffer(type, tensor.decoded);
  }
  Location loc = NameLoc::get(builder.getStringAttr(names[0]));
  bool isTransient =
      kind == ps::VariableKind::Constant || signature.transient.contains(tensor.name);
  variables[tensor.name] = ps::VariableOp::create(
      builder, loc, kind, chooseSymbol(names[0]), builder.getStrArrayAttr(names),
      /*of=*/FlatSymbolRefAttr(), init, /*frozen=*/false, isTransient, type);
  return Error::success();
}

Error OnnxVariables::makeVariables(const llvm::StringSet<> &read, OpBuilder &builder) {
  for (const OnnxTensor &tensor : model.getTensors()) {
    std::string known = signature.kinds.lookup(tensor.name);
    if (!read.contains(tensor.name) && known.empty())
      continue;
    Expected<RankedTensorType> type = getType(tensor, builder.getContext());
    if (!type)
      return type.takeError();
    ps::VariableKind kind = getKind(tensor, type->getElementType());
    bool isSaved = known == "BUFFER" && !signature.transient.contains(tensor.name);
    if (kind != ps::VariableKind::Parameter && !isSaved) {
      Expected<StringRef> bytes = model.getBytes(tensor);
      if (!bytes)
        return bytes.takeError();
      if (tensor.size <= kMaxInlineBytes ||
          (tensor.size <= kMaxTriangleBytes && isTriangle(tensor, *bytes)))
        continue;
    }
    if (Error e = makeVariable(tensor, *type, kind, builder))
      return e;
  }
  return Error::success();
}

Error OnnxVariables::defineValues(const llvm::StringSet<> &read, OnnxScope &scope,
                                  OpBuilder &builder) {
  for (const OnnxTensor &tensor : model.getTensors()) {
    if (!read.contains(tensor.name))
      continue;
    Location loc = NameLoc::get(builder.getStringAttr(tensor.name));
    if (ps::VariableOp variable = variables.lookup(tensor.name)) {
      scope.values[tensor.name] =
          ps::ReadOp::create(builder, loc, variable.getTensorType(),
                             FlatSymbolRefAttr::get(variable.getSymNameAttr()), Value());
      continue;
    }
    Expected<RankedTensorType> type = getType(tensor, builder.getContext());
    Expected<StringRef> bytes = model.getBytes(tensor);
    if (!type || !bytes)
      return joinErrors(type ? Error::success() : type.takeError(),
                        bytes ? Error::success() : bytes.takeError());
    TensorBuilder b(builder, loc);
    scope.values[tensor.name] = buildOnnxConstant(b, *type, *bytes);
  }
  return Error::success();
}

} // namespace parashard::import
