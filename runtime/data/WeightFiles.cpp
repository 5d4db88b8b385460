// Reads and writes weight files and weight folders.
#include "runtime/data/WeightFiles.h"
#include "runtime/core/FileFields.h"
#include "runtime/core/NewFile.h"
#include "runtime/core/Status.h"
#include "runtime/data/ExportFolder.h"
#include "runtime/data/OutputFile.h"
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <tuple>

namespace psrt {

using Json = nlohmann::json;
namespace fs = std::filesystem;

/// Metadata key of the index and of each file. Its value identifies the export that wrote them.
static const char *const kExport = "parashard_export";

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
      PSRT_FAIL(BadInput,
                "\"%s\" has a tensor \"%s\" that is also in another file of the folder; remove one "
                "of the two tensors",
                path.c_str(), name.c_str());
}

/// Returns a value that changes when an export replaces the index.
static auto identify(const fs::path &index) {
  struct stat info{};
  if (stat(index.c_str(), &info) != 0)
    info = {};
  return std::tuple(info.st_dev, info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

/// Returns the id of the export that wrote an index, or "" if another program wrote it.
static std::string exportOf(const Json &index) {
  auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object())
    return "";
  auto number = metadata->find(kExport);
  return number != metadata->end() && number->is_string() ? number->get<std::string>() : "";
}

void WeightFiles::addFolder(const std::string &path) {
  fs::path whole = fs::path(path) / kWholeWeights, index = fs::path(path) / kWeightIndex;
  if (fs::exists(whole))
    return add(whole.string());
  if (!fs::exists(index))
    PSRT_FAIL(BadInput,
              "folder \"%s\" has neither %s nor %s: it has no weights, or their export did not "
              "finish (export them again)",
              path.c_str(), kWholeWeights, kWeightIndex);
  auto before = identify(index);
  MappedFile text(index.string());
  Json json = parseJsonFile({text.data(), text.size()}, index.string(), "index of weights",
                            "; export or copy the weights again");
  addIndexed(index.string(), json);
  checkOneExport(path, exportOf(json));
  if (identify(index) != before)
    PSRT_FAIL(BadInput,
              "weights are currently being exported to \"%s\"; start again when the export "
              "has finished",
              path.c_str());
}

/// Opens the files that an index names.
void WeightFiles::addIndexed(const std::string &index, const Json &json) {
  std::set<std::string> names;
  FileFields fields(json, index);
  fields.allow({"metadata", "weight_map"});
  FileFields map = fields.fields("weight_map");
  for (const std::string &tensor : map.keys())
    names.insert(map.text(tensor));
  for (const std::string &name : names) {
    if (name.find('\0') != std::string::npos)
      PSRT_FAIL(BadInput, "\"%s\" has a file name with a NUL byte; export the weights again",
                index.c_str());
    if (name.find('/') != std::string::npos || name.empty() || name == "." || name == "..")
      PSRT_FAIL(BadInput,
                "\"%s\" names the file \"%s\"; expected the name of a file in the same folder",
                index.c_str(), name.c_str());
    add((fs::path(index).parent_path() / name).string());
  }
  for (const std::string &tensor : map.keys()) {
    std::string file = map.text(tensor);
    auto isThere = [&](const SafetensorsFile &other) {
      return fs::path(other.path()).filename() == file && other.tensors().contains(tensor);
    };
    if (!std::any_of(files.begin(), files.end(), isThere))
      PSRT_FAIL(
          BadInput,
          "\"%s\" says that tensor \"%s\" is in the file \"%s\", but the file does not contain it",
          index.c_str(), tensor.c_str(), file.c_str());
  }
}

/// Fails if the index and the files come from different exports. Files that other programs have
/// written have no id, and are not checked.
void WeightFiles::checkOneExport(const std::string &folder, std::string number) const {
  for (const SafetensorsFile &file : files) {
    std::string other = file.metadata(kExport);
    number = number.empty() ? other : number;
    if (!other.empty() && other != number)
      PSRT_FAIL(BadInput,
                "folder \"%s\" is a mix of two exports, one of them unfinished: \"%s\" is not "
                "from the same export as the rest; export the weights again",
                folder.c_str(), file.path().c_str());
  }
}

std::vector<std::string> WeightFiles::listFiles() const {
  std::vector<std::string> result;
  for (const SafetensorsFile &file : files)
    result.push_back(file.path());
  if (fs::is_directory(given))
    result.push_back((fs::path(given) / kWeightIndex).string());
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
  return count == 1 ? kWholeWeights : format("model-%05zu-of-%05zu.safetensors", file + 1, count);
}

std::vector<std::string> listExportedFiles(const std::string &folder) {
  std::set<fs::path> result{fs::path(folder) / kWholeWeights, fs::path(folder) / kWeightIndex};
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (isExportName(it->path().filename().string()))
      result.insert(it->path());
  return {result.begin(), result.end()};
}

/// Removes files of an earlier export. Readers would mistake these files for a part of the new
/// export.
static void removeOthers(const std::string &path, const std::set<std::string> &written) {
  std::vector<fs::path> stale;
  for (const fs::directory_entry &entry : fs::directory_iterator(path)) {
    std::string name = entry.path().filename().string();
    if (isExportName(name) && !written.contains(name))
      stale.push_back(entry.path());
  }
  for (const fs::path &file : stale)
    fs::remove(file);
}

using StagedFiles = std::vector<std::unique_ptr<OutputFile>>;

/// Writes the index of several files under a temporary name.
static std::unique_ptr<OutputFile> stageIndex(const std::string &path, const Json &map,
                                              int64_t total, const std::string &number) {
  Json index = {{"metadata", {{"total_size", total}, {kExport, number}}}, {"weight_map", map}};
  std::string text = index.dump(2) + "\n";
  auto file = std::make_unique<OutputFile>((fs::path(path) / kWeightIndex).string());
  file->write(text.data(), text.size());
  file->finish();
  return file;
}

/// Renames all files to their final names. The last of several files is the new index; the old
/// index is removed before the first rename. A single file has no index.
static void commitAll(const StagedFiles &staged) {
  if (staged.size() > 1)
    staged.back()->retract();
  for (const std::unique_ptr<OutputFile> &file : staged)
    file->commit();
}

void writeWeightFolder(const std::string &path, const std::vector<WeightToWrite> &weights,
                       int64_t maxFileBytes) {
  bool writes = !path.empty();
  if (writes)
    checkFolderWritable(path);
  std::optional<ExportFolder> folder;
  if (writes)
    folder.emplace(path).removeLeftovers();
  auto files = cutIntoFiles(weights, maxFileBytes);
  std::string number = drawUniqueName();
  std::set<std::string> written;
  StagedFiles staged; // existing files stay until all new ones are on disk
  Json map = Json::object();
  int64_t total = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    std::string name = fileName(i, files.size());
    SafetensorsWriter writer;
    if (files.size() > 1)
      writer.describe(kExport, number);
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
    staged.push_back(stageIndex(path, map, total, number));
    written.insert(kWeightIndex);
  }
  commitAll(staged);
  removeOthers(path, written);
}

void checkFolderWritable(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path, error))
    fail(findPathFault(error ? error.value() : EEXIST), __FILE__, __LINE__,
         format("cannot create the folder \"%s\": %s", path.c_str(),
                error ? error.message().c_str() : "a file of that name exists"));
  checkReplaceable((fs::path(path) / kWholeWeights).string());
}

} // namespace psrt
