// Reading and writing weight files and folders.
#include "runtime/data/WeightFiles.h"
#include "runtime/core/FileFields.h"
#include "runtime/core/Status.h"
#include "runtime/data/OutputFile.h"
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

namespace psrt {

using Json = nlohmann::json;
namespace fs = std::filesystem;

static const char *const kWhole = "model.safetensors";
static const char *const kIndex = "model.safetensors.index.json";

bool isWeightFolder(const std::string &path) {
  return fs::path(path).extension() != ".safetensors";
}

//===--- reading ----------------------------------------------------------===//

WeightFiles::WeightFiles(const std::string &path) : given(path) {
  if (fs::is_directory(path))
    addFolder(path);
  else
    add(path);
}

void WeightFiles::add(const std::string &path) {
  files.emplace_back(path);
  for (const auto &[name, tensor] : files.back().tensors())
    if (!table.emplace(name, tensor).second)
      PSRT_FAIL(BadInput, "\"%s\" has a tensor \"%s\" that another file of the folder has too",
                path.c_str(), name.c_str());
}

void WeightFiles::addFolder(const std::string &path) {
  fs::path whole = fs::path(path) / kWhole, index = fs::path(path) / kIndex;
  if (fs::exists(whole))
    return add(whole.string());
  if (!fs::exists(index))
    PSRT_FAIL(BadInput, "folder \"%s\" has neither %s nor %s", path.c_str(), kWhole, kIndex);
  MappedFile text(index.string());
  std::set<std::string> names;
  Json json = parseJsonFile({text.data(), text.size()}, index.string(), "index of weights");
  FileFields fields(json, index.string());
  fields.allow({"metadata", "weight_map"});
  FileFields map = fields.fields("weight_map");
  for (const std::string &tensor : map.keys())
    names.insert(map.text(tensor));
  for (const std::string &name : names) {
    if (name.find_first_of(std::string("/\0", 2)) != std::string::npos || name.empty() ||
        name == "." || name == "..")
      PSRT_FAIL(BadInput, "\"%s\" names the file \"%s\", which leaves its folder", index.c_str(),
                name.c_str());
    add((fs::path(path) / name).string());
  }
}

std::vector<std::string> WeightFiles::listFiles() const {
  std::vector<std::string> result;
  for (const SafetensorsFile &file : files)
    result.push_back(file.path());
  if (fs::is_directory(given))
    result.push_back((fs::path(given) / kIndex).string());
  return result;
}

const SafetensorsFile::Tensor *WeightFiles::find(const std::string &name) const {
  auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

std::set<std::string> WeightFiles::names() const {
  std::set<std::string> result;
  for (const auto &entry : table)
    result.insert(entry.first);
  return result;
}

//===--- writing ----------------------------------------------------------===//

static int64_t bytesOf(const WeightToWrite &weight) {
  int64_t bytes = dtypeSize(weight.dtype);
  for (int64_t size : weight.shape)
    bytes *= size;
  return bytes;
}

std::vector<std::vector<const WeightToWrite *>>
cutIntoFiles(const std::vector<WeightToWrite> &weights, int64_t maxFileBytes) {
  std::vector<std::vector<const WeightToWrite *>> files(1);
  int64_t used = 0;
  for (const WeightToWrite &weight : weights) {
    int64_t bytes = bytesOf(weight);
    if (!files.back().empty() && used + bytes > maxFileBytes) {
      files.emplace_back();
      used = 0;
    }
    files.back().push_back(&weight);
    used += bytes;
  }
  return files;
}

static std::string fileName(size_t file, size_t count) {
  return count == 1 ? kWhole : format("model-%05zu-of-%05zu.safetensors", file + 1, count);
}

bool isExportedName(const std::string &name) {
  return name == kIndex || name == kWhole ||
         (name.rfind("model-", 0) == 0 && name.find("-of-") != std::string::npos &&
          fs::path(name).extension() == ".safetensors");
}

std::vector<std::string> listExportedFiles(const std::string &folder) {
  std::set<fs::path> result{fs::path(folder) / kWhole, fs::path(folder) / kIndex};
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (isExportedName(it->path().filename().string()))
      result.insert(it->path());
  return {result.begin(), result.end()};
}

/// What an earlier export left: it would be read in place of, or beside, what is written now.
static void removeOthers(const std::string &path, const std::set<std::string> &written) {
  std::vector<fs::path> stale;
  for (const fs::directory_entry &entry : fs::directory_iterator(path)) {
    std::string name = entry.path().filename().string();
    if (isExportedName(name) && !written.count(name))
      stale.push_back(entry.path());
  }
  for (const fs::path &file : stale)
    fs::remove(file);
}

void writeWeightFolder(const std::string &path, const std::vector<WeightToWrite> &weights,
                       int64_t maxFileBytes) {
  bool writes = !path.empty();
  if (writes)
    checkFolderWritable(path);
  auto files = cutIntoFiles(weights, maxFileBytes);
  std::set<std::string> written;
  std::vector<std::unique_ptr<OutputFile>> staged; // what is there stays until all is on the disk
  Json map = Json::object();
  int64_t total = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    std::string name = fileName(i, files.size());
    SafetensorsWriter writer;
    for (const WeightToWrite *weight : files[i]) {
      writer.add(weight->name, weight->dtype, weight->shape, weight->fill);
      map[weight->name] = name;
      total += bytesOf(*weight);
    }
    staged.push_back(writer.stage(writes ? (fs::path(path) / name).string() : ""));
    written.insert(name);
  }
  if (!writes)
    return;
  if (files.size() > 1) {
    Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    std::string text = index.dump(2) + "\n";
    staged.push_back(std::make_unique<OutputFile>((fs::path(path) / kIndex).string()));
    staged.back()->write(text.data(), text.size());
    staged.back()->finish();
    written.insert(kIndex);
  }
  for (const std::unique_ptr<OutputFile> &file : staged)
    file->commit();
  removeOthers(path, written);
}

void checkFolderWritable(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path, error))
    PSRT_FAIL(BadInput, "cannot make the folder \"%s\": %s", path.c_str(),
              error ? error.message().c_str() : "a file of that name is there");
  checkReplaceable((fs::path(path) / kWhole).string());
}

} // namespace psrt
