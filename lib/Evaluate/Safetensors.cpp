// Implements the safetensors format: a 64-bit header length, a JSON header, and the raw bytes.
#include "lib/Evaluate/Safetensors.h"

#include "lib/Support/Files.h"
#include "lib/Support/JsonDocument.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace parashard::ps;
using namespace parashard::support;

namespace parashard::evaluate {

static constexpr std::pair<llvm::StringLiteral, Type (*)(MLIRContext &)> kTypes[] = {
    {"F32", [](MLIRContext &c) -> Type { return Float32Type::get(&c); }},
    {"F64", [](MLIRContext &c) -> Type { return Float64Type::get(&c); }},
    {"F16", [](MLIRContext &c) -> Type { return Float16Type::get(&c); }},
    {"BF16", [](MLIRContext &c) -> Type { return BFloat16Type::get(&c); }},
    {"I64", [](MLIRContext &c) -> Type { return IntegerType::get(&c, 64); }},
    {"I32", [](MLIRContext &c) -> Type { return IntegerType::get(&c, 32); }},
    {"I16", [](MLIRContext &c) -> Type { return IntegerType::get(&c, 16); }},
    {"I8", [](MLIRContext &c) -> Type { return IntegerType::get(&c, 8); }},
    {"U8", [](MLIRContext &c) -> Type { return IntegerType::get(&c, 8, IntegerType::Unsigned); }},
    {"BOOL", [](MLIRContext &c) -> Type { return IntegerType::get(&c, 1); }},
    {"F8_E4M3", [](MLIRContext &c) -> Type { return Float8E4M3FNType::get(&c); }},
    {"F8_E5M2", [](MLIRContext &c) -> Type { return Float8E5M2Type::get(&c); }}};

static Type getType(llvm::StringRef name, MLIRContext &context) {
  for (const auto &[key, make] : kTypes)
    if (key == name)
      return make(context);
  return {};
}

static llvm::StringRef getName(Type type) {
  for (const auto &[key, make] : kTypes)
    if (make(*type.getContext()) == type)
      return key;
  return "F32";
}

static llvm::Error failFormat(llvm::StringRef path, const llvm::Twine &message) {
  return llvm::createStringError("'" + path + "' is not a safetensors file: " + message);
}

/// An entry of the header: its type, and its bytes within the data.
struct Entry {
  RankedTensorType type;
  llvm::StringRef bytes;
};

static llvm::Expected<Entry> readEntry(llvm::StringRef path, llvm::StringRef name, JsonValue entry,
                                       llvm::StringRef data, MLIRContext &context) {
  for (const auto &[key, value] : entry.getMembers())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return failFormat(path, "entry '" + name + "' has \"" + key +
                                  "\"; expected dtype, shape and data_offsets");
  std::optional<JsonValue> shape = entry.getArray("shape");
  std::vector<JsonValue> offsets =
      entry.getArray("data_offsets").value_or(JsonValue()).getElements();
  std::optional<std::string> dtype = entry.getString("dtype");
  if (!shape || offsets.size() != 2 || !dtype)
    return failFormat(path, "entry '" + name + "' needs a dtype, a shape and two data_offsets");
  Type type = getType(*dtype, context);
  if (!type)
    return llvm::createStringError("cannot read '" + path + "': entry '" + name + "' has dtype " +
                                   *dtype + ", which is not supported");
  SmallVector<int64_t> sizes;
  int64_t expected = std::max(1u, type.getIntOrFloatBitWidth() / 8);
  bool overflows = false;
  for (JsonValue size : shape->getElements()) {
    sizes.push_back(size.getAsInteger().value_or(-1));
    if (sizes.back() < 0)
      return failFormat(path, "entry '" + name + "' has an invalid shape");
    overflows |= llvm::MulOverflow(expected, sizes.back(), expected);
  }
  int64_t begin = offsets[0].getAsInteger().value_or(-1);
  int64_t end = offsets[1].getAsInteger().value_or(-1);
  if (begin < 0 || begin > end || overflows || end - begin != expected)
    return failFormat(path, "entry '" + name + "' has a size that does not match its data_offsets");
  if (uint64_t(end) > data.size())
    return llvm::createStringError(
        "'" + path + "' is truncated or damaged: entry '" + name + "' ends at byte " +
        llvm::Twine(end) + " of the data, but the file has only " + llvm::Twine(data.size()) +
        " bytes of data; copy or write the file again");
  return Entry{RankedTensorType::get(sizes, type), data.slice(begin, end)};
}

/// Reads all entries of the header. Fails if the entries together are larger than the file, so that
/// overlapping entries cannot use more memory than the file.
static llvm::Expected<NamedTensors> readEntries(llvm::StringRef path, JsonValue header,
                                                llvm::StringRef data, MLIRContext &context) {
  NamedTensors tensors;
  size_t taken = 0;
  for (const auto &[name, value] : header.getMembers()) {
    if (name == "__metadata__")
      continue;
    llvm::Expected<Entry> entry = readEntry(path, name, value, data, context);
    if (!entry)
      return entry.takeError();
    taken += entry->bytes.size();
    if (taken > data.size())
      return failFormat(path, "entries overlap");
    tensors.insert_or_assign(
        name,
        Tensor::fromBytes(entry->type, llvm::ArrayRef(entry->bytes.data(), entry->bytes.size())));
  }
  return tensors;
}

llvm::Expected<NamedTensors> readSafetensors(llvm::StringRef path, MLIRContext &context) {
  auto buffer = llvm::MemoryBuffer::getFile(path, false, false);
  if (!buffer)
    return llvm::createStringError("cannot read '" + path + "': " + buffer.getError().message());
  llvm::StringRef text = (*buffer)->getBuffer();
  if (text.size() < 8)
    return failFormat(path, "has fewer than 8 bytes");
  uint64_t length = llvm::support::endian::read64le(text.data());
  if (length > text.size() - 8)
    return failFormat(path, "the header is longer than the file");
  llvm::Expected<JsonDocument> header = JsonDocument::parse(text.substr(8, length));
  if (!header)
    return failFormat(path, llvm::toString(header.takeError()));
  if (!header->getRoot().isObject())
    return failFormat(path, "the header is not a JSON object");
  return readEntries(path, header->getRoot(), text.drop_front(8 + length), context);
}

llvm::Error writeSafetensors(llvm::StringRef path, const NamedTensors &tensors) {
  llvm::json::Object header;
  std::string data;
  for (const auto &[name, tensor] : tensors) {
    if (!llvm::json::isUTF8(name)) {
      std::string escaped;
      llvm::raw_string_ostream os(escaped);
      llvm::printEscapedString(name, os);
      return llvm::createStringError("cannot write '" + path + "': the name \"" + escaped +
                                     "\" of a tensor is not UTF-8; rename the tensor");
    }
    std::vector<char> bytes = tensor.toBytes();
    llvm::json::Array shape(tensor.getShape());
    header[name] = llvm::json::Object{
        {"dtype", getName(tensor.getType().getElementType())},
        {"shape", std::move(shape)},
        {"data_offsets", llvm::json::Array{data.size(), data.size() + bytes.size()}}};
    data.append(bytes.begin(), bytes.end());
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(header));
  text.resize(llvm::alignTo(text.size(), 8), ' ');
  return writeAtomically(path, [&](llvm::raw_ostream &os) {
    char length[8];
    llvm::support::endian::write64le(length, text.size());
    os << llvm::StringRef(length, 8) << text << data;
  });
}

} // namespace parashard::evaluate
