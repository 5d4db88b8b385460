// Reads and writes safetensors files.
#include "runtime/data/Safetensors.h"
#include "runtime/core/FileFields.h"
#include "runtime/core/ProgramJson.h"
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace psrt {

using Json = nlohmann::json;

static constexpr struct {
  const char *name;
  Dtype dtype;
} fileDtypes[] = {{"F32", Dtype::F32},   {"F64", Dtype::F64},        {"F16", Dtype::F16},
                  {"BF16", Dtype::BF16}, {"I64", Dtype::I64},        {"I32", Dtype::I32},
                  {"I16", Dtype::I16},   {"I8", Dtype::I8},          {"U8", Dtype::U8},
                  {"BOOL", Dtype::Bool}, {"F8_E4M3", Dtype::F8E4M3}, {"F8_E5M2", Dtype::F8E5M2}};

static const char *nameInFile(Dtype dtype) {
  for (const auto &entry : fileDtypes)
    if (entry.dtype == dtype)
      return entry.name;
  return "?";
}

static int64_t byteSize(Dtype dtype, const std::vector<int64_t> &shape) {
  return countElements(shape) * dtypeSize(dtype);
}

/// Returns a hint if the file is a zip archive, as written by torch.save; else "".
static const char *hintAt(const MappedFile &file) {
  bool isZip = file.size() > 4 && std::memcmp(file.data(), "PK\3\4", 4) == 0;
  return isZip ? "; it is an archive written by torch.save; save the tensors with "
                 "safetensors.torch.save_file"
               : "; write or copy it again";
}

/// Fails unless the tensors cover the data without gaps or overlaps, as the format requires.
static void checkCover(const std::string &path,
                       const std::map<std::string, SafetensorsFile::Tensor> &table,
                       const char *base, int64_t bytes) {
  std::vector<std::pair<const char *, const std::string *>> order;
  for (const auto &[name, tensor] : table)
    if (tensor.bytes)
      order.emplace_back(tensor.data, &name);
  std::sort(order.begin(), order.end());
  int64_t end = 0;
  for (const auto &[data, name] : order) {
    if (data - base != end)
      PSRT_FAIL(BadInput, "\"%s\" is damaged: tensor \"%s\" begins at byte %lld instead of %lld",
                path.c_str(), name->c_str(), (long long)(data - base), (long long)end);
    end += table.at(*name).bytes;
  }
  if (end != bytes)
    PSRT_FAIL(BadInput, "\"%s\" is damaged: it has %lld bytes after its last tensor", path.c_str(),
              (long long)(bytes - end));
}

SafetensorsFile::SafetensorsFile(const std::string &path) : file(path) {
  uint64_t header = 0;
  if (file.size() >= 8)
    std::memcpy(&header, file.data(), 8);
  if (file.size() < 8 || header > file.size() - 8 || header < 2)
    PSRT_FAIL(BadInput, "\"%s\" is not a safetensors file or is truncated (%zu bytes)%s",
              path.c_str(), file.size(), hintAt(file));
  const char *base = file.data() + 8 + header;
  int64_t available = int64_t(file.size() - 8 - header);
  Json json = parseJsonFile({file.data() + 8, size_t(header)}, path, "safetensors file");
  FileFields entries(json, path);
  for (const std::string &name : entries.keys())
    if (name == "__metadata__")
      readMetadata(json[name]);
    else
      table.emplace(name, readEntry(name, entries.fields(name), base, available));
  checkCover(path, table, base, available);
}

/// Reads the metadata. Ignores values that are not strings, which the format does not allow.
void SafetensorsFile::readMetadata(const Json &json) {
  for (const auto &[key, value] : json.items())
    if (value.is_string())
      texts.emplace(key, value.get<std::string>());
}

std::string SafetensorsFile::metadata(const std::string &key) const {
  auto it = texts.find(key);
  return it == texts.end() ? "" : it->second;
}

SafetensorsFile::Tensor SafetensorsFile::readEntry(const std::string &name,
                                                   const FileFields &fields, const char *base,
                                                   int64_t available) const {
  fields.allow({"dtype", "shape", "data_offsets"});
  std::string dtype = fields.text("dtype");
  const char *file = path().c_str();
  Tensor tensor{};
  bool known = false;
  for (const auto &candidate : fileDtypes)
    if (dtype == candidate.name)
      tensor.dtype = candidate.dtype, known = true;
  if (!known)
    PSRT_FAIL(BadInput, "\"%s\": tensor \"%s\" has dtype %s, which is not supported", file,
              name.c_str(), dtype.c_str());
  tensor.shape = fields.integers("shape", 0);
  std::vector<int64_t> range = fields.integers("data_offsets", 0);
  if (range.size() != 2)
    fields.refuse("data_offsets", "two numbers");
  bool isInside = range[0] <= range[1] && range[1] <= available;
  tensor.bytes = isInside ? range[1] - range[0] : 0;
  std::optional<int64_t> count = tryCountElements(tensor.shape);
  if (!isInside)
    PSRT_FAIL(
        BadInput,
        "\"%s\" is truncated or damaged: tensor \"%s\" claims bytes %lld to %lld, but the file "
        "has %lld bytes of data",
        file, name.c_str(), (long long)range[0], (long long)range[1], (long long)available);
  if (!count || tensor.bytes != *count * dtypeSize(tensor.dtype))
    PSRT_FAIL(BadInput,
              "\"%s\" is damaged: tensor \"%s\" has %lld bytes, which does not match its "
              "shape %s",
              file, name.c_str(), (long long)tensor.bytes,
              Json(tensor.shape).dump().append(" of ").append(dtype).c_str());
  tensor.data = base + range[0];
  return tensor;
}

const SafetensorsFile::Tensor *SafetensorsFile::find(const std::string &name) const {
  auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

void SafetensorsWriter::add(std::string name, Dtype dtype, std::vector<int64_t> shape, Fill fill) {
  entries[std::move(name)] = {dtype, std::move(shape), std::move(fill)};
}

void SafetensorsWriter::write(const std::string &path) const {
  if (std::unique_ptr<OutputFile> file = stage(path))
    file->commit();
}

std::string SafetensorsWriter::header() const {
  Json json = Json::object();
  json["__metadata__"] = texts;
  int64_t offset = 0;
  for (const auto &[name, entry] : entries) {
    int64_t bytes = byteSize(entry.dtype, entry.shape);
    json[name] = {{"dtype", nameInFile(entry.dtype)},
                  {"shape", entry.shape},
                  {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t size = text.size();
  return std::string(reinterpret_cast<const char *>(&size), 8) + text;
}

std::map<std::string, int64_t> SafetensorsWriter::offsets() const {
  std::map<std::string, int64_t> result;
  int64_t offset = header().size();
  for (const auto &[name, entry] : entries) {
    result[name] = offset;
    offset += byteSize(entry.dtype, entry.shape);
  }
  return result;
}

std::unique_ptr<OutputFile> SafetensorsWriter::stage(const std::string &path) const {
  std::vector<char> buffer;
  if (path.empty()) {
    for (const auto &[name, entry] : entries) {
      buffer.resize(byteSize(entry.dtype, entry.shape));
      entry.fill(buffer.data());
    }
    return nullptr;
  }
  std::string text = header();
  auto file = std::make_unique<OutputFile>(path);
  file->write(text.data(), text.size());
  for (const auto &[name, entry] : entries) {
    buffer.resize(byteSize(entry.dtype, entry.shape));
    entry.fill(buffer.data());
    file->write(buffer.data(), buffer.size());
  }
  file->finish();
  return file;
}

} // namespace psrt
