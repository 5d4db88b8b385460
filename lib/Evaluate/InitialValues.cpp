// Reads initial values from constants, files and distributions.
#include "lib/Evaluate/InitialValues.h"

#include "lib/Evaluate/Safetensors.h"
#include "lib/Import/WeightFiles.h"
#include "runtime/session/InitialValue.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::evaluate {

/// Reads the tensor that `file` names. If the file is an archive or an ONNX file, `type` is the
/// type of the tensor. Safetensors files record the types of their tensors, so `type` is not used.
static FailureOr<Tensor> readFileTensor(VariableOp variable, FileAttr file, RankedTensorType type) {
  auto [path, entry] = import::splitLocation(file.getLocation());
  if (path.ends_with(".safetensors")) {
    auto tensors = readSafetensors(path, *variable.getContext());
    if (!tensors)
      return variable.emitOpError() << llvm::toString(tensors.takeError());
    auto it = tensors->find(entry.str());
    if (it == tensors->end())
      return variable.emitOpError() << "'" << path << "' has no tensor '" << entry << "'";
    return it->second;
  }
  import::WeightFiles files;
  llvm::Expected<StringRef> bytes = files.read(file.getLocation());
  if (!bytes)
    return variable.emitOpError() << llvm::toString(bytes.takeError());
  size_t expected = getByteSize(type);
  if (bytes->size() < expected)
    return variable.emitOpError() << "entry '" << entry << "' of '" << path << "' has "
                                  << bytes->size() << " bytes, but " << type << " needs "
                                  << expected;
  return Tensor::fromBytes(type, ArrayRef(bytes->data(), expected));
}

/// Reads the part of a file's tensor that initializes a variable, in the element type of the file.
static FailureOr<Tensor> readPart(VariableOp variable, FileAttr file) {
  RankedTensorType type = variable.getTensorType();
  if (auto other = variable->getAttrOfType<TypeAttr>(kFileTypeMark))
    type = type.clone(other.getValue());
  if (file.getLower().empty())
    return readFileTensor(variable, file, type);
  auto fileType = RankedTensorType::get(file.getShape(), type.getElementType());
  FailureOr<Tensor> whole = readFileTensor(variable, file, fileType);
  if (failed(whole))
    return failure();
  Tensor part(type);
  for (int64_t i = 0; i < part.size(); ++i) {
    SmallVector<int64_t> index = part.delinearize(i);
    for (auto [position, lower] : llvm::zip(index, file.getLower()))
      position += lower;
    part.set(i, whole->get(whole->linearize(index)));
  }
  return part;
}

static FailureOr<Tensor> readFile(VariableOp variable, FileAttr file) {
  FailureOr<Tensor> part = readPart(variable, file);
  if (succeeded(part))
    return part->convertTo(variable.getTensorType().getElementType());
  return part;
}

static Tensor draw(VariableOp variable, DistributionAttr distribution, uint64_t seed) {
  Tensor tensor(variable.getTensorType());
  uint64_t key = psrt::initialKey(seed, variable.getDisplayName());
  double first = distribution.getFirst().getValueAsDouble();
  double second = distribution.getSecond().getValueAsDouble();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (distribution.getKind() == "value")
      tensor.set(i, first);
    else
      tensor.set(i, psrt::drawInitial(distribution.getKind() == "normal", key, i, first, second));
  }
  return tensor;
}

FailureOr<Tensor> getInitialValue(VariableOp variable, uint64_t seed) {
  std::optional<Attribute> init = variable.getInit();
  if (!init)
    return Tensor(variable.getTensorType());
  if (auto file = dyn_cast<FileAttr>(*init))
    return readFile(variable, file);
  if (auto distribution = dyn_cast<DistributionAttr>(*init))
    return draw(variable, distribution, seed);
  if (auto constant = dyn_cast<ElementsAttr>(*init))
    return Tensor::fromAttr(constant);
  return variable.emitOpError() << "has an initial value of an unknown kind: " << *init;
}

} // namespace parashard::evaluate
