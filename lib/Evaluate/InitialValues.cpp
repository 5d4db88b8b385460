// Initial values from constants, files and distributions.
#include "lib/Evaluate/InitialValues.h"

#include "lib/Evaluate/Safetensors.h"
#include "runtime/core/InitialValue.h"
#include <zip.h>

using namespace mlir;
using namespace parashard::ps;

namespace parashard {

/// The bytes of an entry of a zip archive.
static FailureOr<std::vector<char>> readZipEntry(Operation *op, StringRef archive,
                                                 StringRef entry) {
  int code = 0;
  zip_t *zip = zip_open(archive.str().c_str(), ZIP_RDONLY, &code);
  if (!zip) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    auto diagnostic = op->emitError()
                      << "cannot open '" << archive << "': " << zip_error_strerror(&error);
    zip_error_fini(&error);
    return diagnostic;
  }
  // Archives of torch put everything under one top folder; references leave it out.
  zip_int64_t index = zip_name_locate(zip, entry.str().c_str(), 0);
  for (zip_int64_t i = 0; index < 0 && i < zip_get_num_entries(zip, 0); ++i)
    if (StringRef(zip_get_name(zip, i, 0)).split('/').second == entry)
      index = i;
  std::vector<char> bytes;
  zip_stat_t stat;
  zip_file_t *file = nullptr;
  if (index >= 0 && !zip_stat_index(zip, index, 0, &stat))
    file = zip_fopen_index(zip, index, 0);
  bool ok = false;
  if (file) {
    bytes.resize(stat.size);
    ok = zip_fread(file, bytes.data(), bytes.size()) == zip_int64_t(bytes.size());
    zip_fclose(file);
  }
  zip_discard(zip);
  if (!ok)
    return op->emitError() << "cannot read the entry '" << entry << "' of '" << archive << "'";
  return bytes;
}

/// The tensor that `file` names, of its own shape.
static FailureOr<Tensor> readFileTensor(VariableOp variable, FileAttr file, RankedTensorType type) {
  auto [path, entry] = file.getLocation().getValue().rsplit(':');
  if (path.ends_with(".safetensors")) {
    auto tensors = readSafetensors(path, *variable.getContext());
    if (!tensors)
      return variable.emitOpError() << llvm::toString(tensors.takeError());
    auto it = tensors->find(entry.str());
    if (it == tensors->end())
      return variable.emitOpError() << "'" << path << "' has no tensor '" << entry << "'";
    return it->second;
  }
  FailureOr<std::vector<char>> bytes = readZipEntry(variable, path, entry);
  if (failed(bytes))
    return failure();
  size_t expected = getByteSize(type);
  if (bytes->size() < expected)
    return variable.emitOpError() << "entry '" << entry << "' of '" << path << "' has "
                                  << bytes->size() << " bytes, " << type << " needs " << expected;
  return Tensor::fromBytes(type, ArrayRef(*bytes).take_front(expected));
}

static FailureOr<Tensor> readFile(VariableOp variable, FileAttr file) {
  RankedTensorType type = variable.getTensorType();
  if (file.getLower().empty())
    return readFileTensor(variable, file, type);
  auto fileType = RankedTensorType::get(file.getShape(), type.getElementType());
  FailureOr<Tensor> whole = readFileTensor(variable, file, fileType);
  if (failed(whole))
    return failure();
  Tensor part(type);
  for (int64_t i = 0; i < part.size(); ++i) {
    SmallVector<int64_t> index = part.delinearize(i);
    for (auto [place, lower] : llvm::zip(index, file.getLower()))
      place += lower;
    part.set(i, whole->get(whole->linearize(index)));
  }
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

} // namespace parashard
