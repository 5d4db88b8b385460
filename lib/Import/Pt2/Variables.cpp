// Creates the variables from `data/weights/*_config.json` and `data/constants/*_config.json`.
// Handles tied names, frozen parameters and small constants.
#include "lib/Import/Pt2/Variables.h"
#include "lib/Import/Pt2/Convert.h"
#include "lib/Import/Shapes.h"
#include "lib/Import/Symbols.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;
using namespace llvm;

namespace parashard::import {
namespace {

/// Maximum size in bytes of constants that are stored in the IR, not read from the file.
constexpr uint64_t kMaxInlineBytes = 1 << 14;

struct Stored {
  Payload payload;
  std::string entry; ///< such as "data/weights/weight_0"
};

/// Reads the entries of all configs in a folder, by tensor name.
Error readConfigs(const Archive &archive, StringRef folder, llvm::StringMap<Stored> &stored) {
  for (const ArchiveEntry &entry : archive.getEntries()) {
    StringRef name = entry.name;
    if (!name.starts_with(folder) || !name.ends_with("_config.json"))
      continue;
    Expected<std::string> text = archive.readText(entry);
    if (!text)
      return text.takeError();
    Expected<std::vector<Payload>> payloads = parsePayloads(*text);
    if (!payloads)
      return createStringError(entry.name + ": " + toString(payloads.takeError()));
    for (Payload &payload : *payloads) {
      std::string file = folder.str() + payload.file, key = payload.name;
      stored[key] = {std::move(payload), std::move(file)};
    }
  }
  return Error::success();
}

struct Tensor {
  RankedTensorType type;
  const ArchiveEntry *entry = nullptr; ///< null: no data (a parameter on the meta device)
};

/// Returns true if the strides are row-major. The shape must satisfy `isPossibleShape`.
bool isRowMajor(const TensorMeta &meta) {
  int64_t stride = 1;
  if (meta.strides.size() != meta.sizes.size())
    return false;
  for (auto [size, actual] : reverse(zip(meta.sizes, meta.strides))) {
    if (size.value != 1 && actual.value != stride)
      return false;
    stride *= std::max<int64_t>(size.value, 1);
  }
  return true;
}

Expected<RankedTensorType> getTensorType(const Stored &stored, MLIRContext *context) {
  const std::string &name = stored.payload.name;
  if (stored.payload.usesPickle || !stored.payload.meta)
    return createStringError(
        "'" + name + "' is stored as a Python object, not as a tensor; only tensors are supported");
  const TensorMeta &meta = *stored.payload.meta;
  Type element = getElementType(meta.dtype, context);
  if (!element)
    return createStringError("'" + name + "' has the dtype " + getDtypeName(meta.dtype) +
                             ", which is not supported");
  SmallVector<int64_t> shape;
  for (const Size &size : meta.sizes) {
    if (!size.isStatic())
      return createStringError("'" + name + "' has a symbolic shape");
    shape.push_back(size.value);
  }
  if (!isPossibleShape(shape))
    return createStringError("'" + name + "' has " + kImpossibleShape);
  return RankedTensorType::get(shape, element);
}

Expected<Tensor> getTensor(const Archive &archive, const Stored &stored, MLIRContext *context) {
  const std::string &name = stored.payload.name;
  Expected<RankedTensorType> type = getTensorType(stored, context);
  if (!type)
    return type.takeError();
  Tensor tensor{*type, nullptr};
  Expected<const ArchiveEntry *> entry = archive.findStored(stored.entry);
  if (!entry)
    return entry.takeError();
  uint64_t expected = ps::getByteSize(*type);
  if ((*entry)->size == 0 && expected != 0) {
    if (stored.payload.isParameter)
      return tensor;
    return createStringError(
        "buffer or constant '" + name +
        "' has no data (it was on the meta device); give it its values before the export");
  }
  if (!isRowMajor(*stored.payload.meta) || stored.payload.meta->storageOffset.value != 0)
    return createStringError(
        "'" + name +
        "' is a strided view of its storage; call .contiguous() on it before the export");
  if ((*entry)->size < expected)
    return createStringError(
        formatv("'{0}' needs {1} bytes, but its file '{2}' has {3}; export it again", name,
                expected, stored.entry, (*entry)->size)
            .str());
  if ((*entry)->size > expected)
    return createStringError(
        "'" + name + "' is part of a larger storage; call .clone() on it before the export");
  tensor.entry = *entry;
  return tensor;
}

ElementsAttr readConstant(RankedTensorType type, StringRef bytes) {
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> values(bytes.begin(), bytes.end());
    return DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  return DenseElementsAttr::getFromRawBuffer(type, ArrayRef<char>(bytes.data(), bytes.size()));
}

/// Returns true for [1, .., n, n] bools that are true where column <= row.
bool isLowerTriangle(RankedTensorType type, StringRef bytes) {
  int64_t rank = type.getRank();
  if (!type.getElementType().isInteger(1) || rank < 2 ||
      type.getDimSize(rank - 1) != type.getDimSize(rank - 2) ||
      type.getNumElements() != type.getDimSize(rank - 1) * type.getDimSize(rank - 1))
    return false;
  int64_t size = type.getDimSize(rank - 1);
  for (int64_t row = 0; row < size; ++row)
    for (int64_t column = 0; column < size; ++column)
      if ((bytes[row * size + column] != 0) != (column <= row))
        return false;
  return true;
}

/// Groups the names that share a file (tied parameters). Names are in the order of the program's
/// inputs, followed by other names in alphabetical order.
std::map<std::string, SmallVector<std::string>> groupNames(const ExportedProgram &program,
                                                           const llvm::StringMap<Stored> &stored) {
  std::map<std::string, SmallVector<std::string>> groups;
  auto add = [&](StringRef name) {
    auto it = stored.find(name);
    if (it != stored.end() && !is_contained(groups[it->second.entry], name))
      groups[it->second.entry].push_back(name.str());
  };
  for (const InputSpec &input : program.inputs)
    if (input.kind != InputSpec::User && input.kind != InputSpec::Ignored)
      add(input.target);
  std::vector<StringRef> rest;
  for (const auto &entry : stored)
    rest.push_back(entry.first());
  llvm::sort(rest);
  for (StringRef name : rest)
    add(name);
  return groups;
}

ps::VariableKind getKind(const InputSpec &input) {
  return input.kind == InputSpec::Parameter ? ps::VariableKind::Parameter
         : input.kind == InputSpec::Buffer  ? ps::VariableKind::Buffer
                                            : ps::VariableKind::Constant;
}

bool isTensorStateInput(const InputSpec &input) {
  return input.kind != InputSpec::User && input.kind != InputSpec::Ignored;
}

/// Fails if tied names have different types.
Error checkTied(const llvm::StringMap<Stored> &stored, ArrayRef<std::string> names,
                MLIRContext *context) {
  Expected<RankedTensorType> first = getTensorType(stored.find(names[0])->second, context);
  if (!first)
    return first.takeError();
  for (const std::string &name : names.drop_front()) {
    Expected<RankedTensorType> type = getTensorType(stored.find(name)->second, context);
    if (!type)
      return type.takeError();
    if (*type != *first)
      return createStringError("'" + names[0] + "' and '" + name +
                               "' share a storage but have the types " + debugString(*first) +
                               " and " + debugString(*type) + ", which is not supported");
  }
  return Error::success();
}

} // namespace

ps::VariableOp VariableTable::make(const InputSpec &input, ArrayRef<std::string> names,
                                   RankedTensorType type, StringRef location, bool frozen,
                                   OpBuilder &builder) {
  MLIRContext *context = builder.getContext();
  Attribute init;
  if (!location.empty())
    init = ps::FileAttr::get(context, builder.getStringAttr(location), {}, {}, {});
  SmallVector<StringRef> all(names.begin(), names.end());
  Location loc = NameLoc::get(builder.getStringAttr(names[0]));
  return ps::VariableOp::create(builder, loc, getKind(input), chooseSymbol(names[0]),
                                builder.getStrArrayAttr(all),
                                /*of=*/FlatSymbolRefAttr(), init, frozen, !input.persistent, type);
}

Expected<VariableTable> VariableTable::create(const ExportedProgram &program,
                                              const Archive &archive,
                                              const llvm::StringSet<> &written,
                                              OpBuilder &builder) {
  VariableTable table;
  llvm::StringMap<Stored> stored;
  for (StringRef folder : {"data/weights/", "data/constants/"})
    if (Error e = readConfigs(archive, folder, stored))
      return std::move(e);
  auto groups = groupNames(program, stored);
  llvm::StringMap<ps::VariableOp> created;
  for (const InputSpec &input : program.inputs) {
    if (!isTensorStateInput(input))
      continue;
    auto it = stored.find(input.target);
    if (it == stored.end())
      return createStringError(
          "'" + input.target +
          "' is not in the archive's configs; the archive is incomplete, export the model again");
    const Stored &entry = it->second;
    if (ps::VariableOp known = created.lookup(entry.entry)) {
      table.variables[input.name] = known;
      continue;
    }
    ArrayRef<std::string> names = groups[entry.entry];
    if (Error e = checkTied(stored, names, builder.getContext()))
      return std::move(e);
    Expected<Tensor> tensor = getTensor(archive, entry, builder.getContext());
    if (!tensor)
      return tensor.takeError();
    if (!input.persistent && !written.contains(input.name) && tensor->entry) {
      Expected<StringRef> bytes = archive.readBytes(*tensor->entry);
      if (!bytes)
        return bytes.takeError();
      if (isLowerTriangle(tensor->type, *bytes)) {
        table.triangles[input.name] = tensor->type;
        continue;
      }
      if (tensor->entry->size <= kMaxInlineBytes) {
        table.constants[input.name] = readConstant(tensor->type, *bytes);
        continue;
      }
    }
    std::string location = tensor->entry ? (archive.getPath() + ":" + entry.entry).str() : "";
    bool frozen = input.kind == InputSpec::Parameter && !entry.payload.meta->requiresGrad;
    created[entry.entry] = table.variables[input.name] =
        table.make(input, names, tensor->type, location, frozen, builder);
  }
  return table;
}

} // namespace parashard::import
