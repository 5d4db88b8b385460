// Opens an `.onnx` file. Removes the initializers from the message before protobuf parses it, and
// locates their bytes in the file or in external data files.
#include "lib/Import/Onnx/Model.h"
#include "lib/Import/Onnx/UnreadFields.h"
#include "lib/Import/Onnx/Wire.h"
#include "lib/Import/Shapes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA1.h"

using namespace llvm;

namespace parashard::import {

// Numbers of fields (onnx.proto).
static constexpr unsigned kModelGraph = 7, kGraphInitializer = 5;
static constexpr unsigned kTensorFloats = 4, kTensorRaw = 9, kTensorDoubles = 10;

/// The data of a tensor, which was removed from its message.
struct OnnxModel::Chunk {
  StringRef bytes;
  unsigned count = 0; ///< number of removed data fields; a valid tensor has at most one
};

std::string getOnnxDtypeName(int32_t dtype) {
  static constexpr StringLiteral names[] = {
      "undefined",      "float32",    "uint8",          "int8",       "uint16",   "int16",
      "int32",          "int64",      "string",         "bool",       "float16",  "float64",
      "uint32",         "uint64",     "complex64",      "complex128", "bfloat16", "float8e4m3fn",
      "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",     "float4e2m1"};
  if (dtype >= 0 && dtype < int32_t(std::size(names)))
    return names[dtype].str();
  return "number " + std::to_string(dtype);
}

unsigned getOnnxElementSize(int32_t dtype) {
  switch (dtype) {
  case 2: // uint8
  case 3: // int8
  case 9: // bool
    return 1;
  case 4:  // uint16
  case 5:  // int16
  case 10: // float16
  case 16: // bfloat16
    return 2;
  case 1:  // float32
  case 6:  // int32
  case 12: // uint32
    return 4;
  case 7:  // int64
  case 11: // float64
  case 13: // uint64
    return 8;
  default:
    return 0;
  }
}

/// Returns the number of bytes of a tensor, or nullopt for impossible dims (`isPossibleShape`).
static std::optional<uint64_t> countBytes(ArrayRef<int64_t> dims, int32_t dtype) {
  if (!isPossibleShape(dims))
    return std::nullopt;
  return getOnnxElementSize(dtype) * uint64_t(product_of(dims));
}

template <typename Out, typename Field>
static void append(std::vector<char> &bytes, const Field &field) {
  for (auto value : field) {
    Out out = Out(value);
    const char *first = reinterpret_cast<const char *>(&out);
    bytes.insert(bytes.end(), first, first + sizeof(Out));
  }
}

/// Returns the elements of a tensor as bytes, from `raw_data` or the typed fields.
static std::vector<char> collectBytes(const onnx::TensorProto &t) {
  std::vector<char> bytes(t.raw_data().begin(), t.raw_data().end());
  append<float>(bytes, t.float_data());
  append<double>(bytes, t.double_data());
  append<int64_t>(bytes, t.int64_data());
  switch (getOnnxElementSize(t.data_type())) {
  case 1:
    append<uint8_t>(bytes, t.int32_data());
    break;
  case 2:
    append<uint16_t>(bytes, t.int32_data());
    break;
  default:
    append<int32_t>(bytes, t.int32_data());
  }
  if (t.data_type() == 12)
    append<uint32_t>(bytes, t.uint64_data());
  else
    append<uint64_t>(bytes, t.uint64_data());
  return bytes;
}

static Error checkSize(const onnx::TensorProto &t, uint64_t size) {
  if (!getOnnxElementSize(t.data_type()))
    return createStringError("tensor '" + t.name() + "' has the dtype " +
                             getOnnxDtypeName(t.data_type()) + ", which is not supported");
  std::optional<uint64_t> expected =
      countBytes(ArrayRef(t.dims().data(), t.dims_size()), t.data_type());
  if (!expected)
    return createStringError("tensor '" + t.name() + "' has an impossible shape");
  if (*expected != size)
    return createStringError(formatv("tensor '{0}' has {2} bytes, but its shape needs {1}; "
                                     "export it again",
                                     t.name(), *expected, size)
                                 .str());
  return Error::success();
}

Expected<std::vector<char>> decodeTensor(const onnx::TensorProto &message) {
  std::vector<char> bytes = collectBytes(message);
  if (Error e = checkSize(message, bytes.size()))
    return std::move(e);
  return bytes;
}

Error OnnxModel::error(const Twine &message) const {
  return createStringError("'" + path + "' " + message);
}

Expected<StringRef> OnnxModel::map(StringRef file) const {
  auto &buffer = buffers[file.str()];
  if (!buffer) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> opened =
        MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!opened)
      return createStringError("cannot read '" + file + "': " + opened.getError().message());
    buffer = std::move(*opened);
  }
  return buffer->getBuffer();
}

Expected<OnnxModel> OnnxModel::open(StringRef path) {
  OnnxModel model;
  model.path = path.str();
  if (Error e = model.read())
    return std::move(e);
  return model;
}

/// Appends a field of wire type 2 (bytes).
static void appendField(std::string &out, unsigned number, StringRef content) {
  auto varint = [&](uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      out.push_back(char(value | 0x80));
    out.push_back(char(value));
  };
  varint(number << 3 | 2);
  varint(content.size());
  out.append(content.begin(), content.end());
}

Error OnnxModel::read() {
  Expected<StringRef> file = map(path);
  if (!file)
    return file.takeError();
  std::string slim; // the model without initializers
  bool hasGraph = false;
  std::vector<StringRef> initializers;
  WireReader model(*file);
  while (std::optional<WireField> field = model.next()) {
    if (field->number != kModelGraph || field->type != 2) {
      slim.append(field->whole.begin(), field->whole.end());
      continue;
    }
    hasGraph = true;
    std::string graph;
    WireReader reader(field->bytes);
    while (std::optional<WireField> part = reader.next())
      if (part->number == kGraphInitializer && part->type == 2)
        initializers.push_back(part->bytes);
      else
        graph.append(part->whole.begin(), part->whole.end());
    if (reader.isDamaged())
      return error("is damaged or truncated; copy or export it again");
    appendField(slim, kModelGraph, graph);
  }
  if (model.isDamaged())
    return error(
        "is truncated, or not an ONNX model; expected a file written by torch.onnx.export");
  proto = std::make_unique<onnx::ModelProto>();
  if (slim.size() > INT32_MAX || !hasGraph || !proto->ParsePartialFromString(slim))
    return error("is not an ONNX model; expected a file written by torch.onnx.export");
  if (std::string field = findUnreadField(*proto); !field.empty())
    return error("has " + field + ", which is not supported; export the model without it");
  if (proto->graph().sparse_initializer_size())
    return error("has sparse initializers, which are not supported");
  if (Error e = checkOpset())
    return e;
  for (StringRef message : initializers)
    if (Error e = addTensor(message))
      return e;
  return Error::success();
}

Error OnnxModel::checkOpset() {
  for (const onnx::OperatorSetIdProto &set : proto->opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx")
      opset = set.version();
  if (opset == 0)
    return error("has no opset for ONNX's default domain; export it again");
  if (opset < kMinOpset || opset > kMaxOpset)
    return error(
        formatv("has opset {0}; supported are {1} to {2}: export with opset_version=20, or "
                "use onnx.version_converter",
                opset, kMinOpset, kMaxOpset));
  return Error::success();
}

Error OnnxModel::addTensor(StringRef message) {
  std::string slim;
  Chunk data;
  WireReader reader(message);
  while (std::optional<WireField> field = reader.next()) {
    bool isArray = field->number == kTensorRaw || field->number == kTensorFloats ||
                   field->number == kTensorDoubles;
    if (!isArray || field->type != 2) {
      slim.append(field->whole.begin(), field->whole.end());
      continue;
    }
    data.bytes = field->bytes;
    data.count += !field->bytes.empty();
  }
  onnx::TensorProto proto;
  if (reader.isDamaged() || slim.size() > INT32_MAX || !proto.ParsePartialFromString(slim))
    return error("has a damaged initializer; copy or export it again");
  if (std::string field = findUnreadField(proto); !field.empty())
    return error("has " + field + ", which is not supported; export the model without it");
  OnnxTensor tensor;
  tensor.name = proto.name();
  tensor.dtype = proto.data_type();
  tensor.dims.assign(proto.dims().begin(), proto.dims().end());
  if (Error e = locate(proto, data, tensor))
    return createStringError("'" + path + "': " + toString(std::move(e)));
  if (!byName.try_emplace(tensor.name, tensors.size()).second)
    return error("has two initializers named '" + tensor.name + "'");
  tensors.push_back(std::move(tensor));
  return Error::success();
}

Error OnnxModel::locate(const onnx::TensorProto &message, const Chunk &data, OnnxTensor &tensor) {
  if (message.data_location() == 1)
    return locateExternal(message, tensor);
  if (data.count > 1)
    return createStringError("tensor '" + tensor.name +
                             "' has several fields with data; export it again");
  tensor.file = path;
  if (data.count == 1) {
    tensor.offset = data.bytes.data() - buffers[path]->getBufferStart();
    tensor.size = data.bytes.size();
    return checkSize(message, tensor.size);
  }
  tensor.decoded = collectBytes(message);
  tensor.isRaw = false;
  tensor.size = tensor.decoded.size();
  return checkSize(message, tensor.size);
}

/// Returns true for a relative path without `..`.
static bool staysInside(StringRef location) {
  if (location.empty() || sys::path::is_absolute(location))
    return false;
  for (StringRef part : make_range(sys::path::begin(location), sys::path::end(location)))
    if (part == "..")
      return false;
  return true;
}

/// Returns true if `file` is below `folder` after symbolic links are resolved.
static bool isBelow(StringRef file, StringRef folder) {
  SmallString<128> realFile, realFolder;
  if (sys::fs::real_path(file, realFile) ||
      sys::fs::real_path(folder.empty() ? StringRef(".") : folder, realFolder))
    return false;
  StringRef rest = realFile;
  return rest.consume_front(realFolder) && (realFolder == "/" || rest.starts_with("/"));
}

/// Fails if the SHA-1 of the tensor's file is not `expected`.
Error OnnxModel::verifyChecksum(const OnnxTensor &tensor, StringRef expected) {
  std::string &found = checksums[tensor.file];
  if (found.empty()) {
    Expected<StringRef> file = map(tensor.file);
    if (!file)
      return file.takeError();
    found = toHex(SHA1::hash(arrayRefFromStringRef(*file)), /*LowerCase=*/true);
  }
  if (expected.equals_insensitive(found))
    return Error::success();
  return createStringError("tensor '" + tensor.name + "': the checksum (SHA-1) of '" + tensor.file +
                           "' is " + found + ", but the model expects " + expected +
                           "; copy the file again");
}

Error OnnxModel::locateExternal(const onnx::TensorProto &message, OnnxTensor &tensor) {
  std::string location;
  uint64_t length = 0;
  bool hasLength = false, isBad = false;
  StringRef checksum;
  llvm::StringSet<> keys;
  for (const onnx::StringStringEntryProto &entry : message.external_data()) {
    StringRef value = entry.value();
    if (!keys.insert(entry.key()).second)
      return createStringError("tensor '" + tensor.name + "' has the key '" + entry.key() +
                               "' of its external data twice");
    if (entry.key() == "location")
      location = value.str();
    else if (entry.key() == "offset")
      isBad |= value.getAsInteger(10, tensor.offset);
    else if (entry.key() == "length")
      hasLength = true, isBad |= value.getAsInteger(10, length);
    else if (entry.key() == "checksum")
      checksum = value;
    else
      return createStringError("tensor '" + tensor.name + "' has the key '" + entry.key() +
                               "' of its external data, which is not supported; remove it");
  }
  std::string name = "tensor '" + tensor.name + "'";
  if (isBad)
    return createStringError(
        name +
        " has a malformed offset or length of its external data; expected nonnegative integers");
  if (StringRef(location).contains('\0'))
    return createStringError(name + " has a NUL byte in the path of its data; export it again");
  if (!staysInside(location))
    return createStringError(name + " has its data in '" + location +
                             "', outside the model's folder, which is not allowed");
  StringRef folder = sys::path::parent_path(path);
  SmallString<128> file(folder);
  sys::path::append(file, location);
  uint64_t available = 0;
  if (sys::fs::file_size(file, available) || sys::fs::is_directory(file))
    return createStringError(name + " has its data in '" + file.str() +
                             "', which does not exist; copy it next to the model");
  if (!isBelow(file, folder))
    return createStringError(
        name + " has its data in '" + file.str() +
        "', a link to a file outside the model's folder, which is not allowed");
  if (tensor.offset > available || (hasLength && length > available - tensor.offset))
    return createStringError(
        formatv(
            "{0} has its data beyond the end of '{1}', which has {2} bytes; the file is truncated, "
            "copy it again",
            name, file.str(), available)
            .str());
  tensor.file = file.str().str();
  tensor.size = hasLength ? length : available - tensor.offset;
  if (!checksum.empty())
    if (Error e = verifyChecksum(tensor, checksum))
      return e;
  return checkSize(message, tensor.size);
}

const OnnxTensor *OnnxModel::find(StringRef name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &tensors[it->second];
}

Expected<StringRef> OnnxModel::getBytes(const OnnxTensor &tensor) const {
  if (!tensor.isRaw)
    return StringRef(tensor.decoded.data(), tensor.decoded.size());
  Expected<StringRef> file = map(tensor.file);
  if (!file)
    return file.takeError();
  if (tensor.offset > file->size() || tensor.size > file->size() - tensor.offset)
    return createStringError("'" + tensor.file + "' changed while it was read; import it again");
  return file->substr(tensor.offset, tensor.size);
}

} // namespace parashard::import
