// Saving and loading all state.
#include "runtime/core/Checkpoint.h"
#include "runtime/data/MappedFile.h"
#include "runtime/data/OutputFile.h"
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace psrt {

namespace fs = std::filesystem;
using Json = nlohmann::json;

static const char *const kLatest = "latest";
static const char *const kState = "checkpoint.json";
static const char *const kPrefix = "step-";

/// State is what a step reads and an earlier one wrote: gradients and sums of a step are not.
static bool isState(const Program &program, const NamedTensor &tensor) {
  const Variable &variable = program.variables[tensor.parts.front().variable];
  if (tensor.kind == "optimizer") { // by its symbol: a count of steps; not what is by parameter too
    int of = program.variable(variable.of);
    return of < 0 || program.variables[of].placement.shape != variable.placement.shape;
  }
  return tensor.kind == "parameter" || tensor.kind == "buffer" || tensor.kind == "average" ||
         tensor.kind == kOptimizerState;
}

static std::string sumOf(const std::string &path) {
  MappedFile file(path);
  uint64_t sum = 0xCBF29CE484222325u; // FNV-1a over words of 8 bytes, the last ones alone
  size_t words = file.size() / 8;
  for (size_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, file.data() + 8 * i, 8);
    sum = (sum ^ word) * 0x100000001B3u;
    sum ^= sum >> 29; // a product carries upwards only
  }
  for (size_t i = 8 * words; i < size_t(file.size()); ++i)
    sum = (sum ^ uint8_t(file.data()[i])) * 0x100000001B3u;
  return format("%016llx", (unsigned long long)sum);
}

//===--- names ------------------------------------------------------------===//

/// The step and the number behind it of "step-000100-2"; nothing for other names.
static std::optional<std::pair<int64_t, int64_t>> parseName(const std::string &name) {
  long long step = 0, again = 1;
  int used = 0;
  if (name.rfind(kPrefix, 0) != 0)
    return std::nullopt;
  const char *text = name.c_str() + std::strlen(kPrefix);
  if (std::sscanf(text, "%lld%n-%lld%n", &step, &used, &again, &used) < 1 || text[used] || step < 0)
    return std::nullopt;
  return std::pair<int64_t, int64_t>(step, again);
}

static std::string chooseName(const std::string &folder, int64_t step) {
  std::string name = format("%s%06lld", kPrefix, (long long)step);
  for (int again = 2; fs::exists(fs::path(folder) / name); ++again)
    name = format("%s%06lld-%d", kPrefix, (long long)step, again);
  return name;
}

static void removeOlder(const std::string &folder, int64_t keep) {
  std::vector<std::pair<std::pair<int64_t, int64_t>, fs::path>> found;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    if (auto number = parseName(entry.path().filename().string()); number && entry.is_directory())
      found.push_back({*number, entry.path()});
  std::sort(found.begin(), found.end());
  for (size_t i = 0; keep > 0 && i + size_t(keep) < found.size(); ++i)
    fs::remove_all(found[i].second);
}

//===--- saving -----------------------------------------------------------===//

static void writeText(const fs::path &path, const std::string &text) {
  OutputFile file(path.string());
  file.write(text.data(), text.size());
  file.finish();
  file.commit();
}

static void writeState(const fs::path &folder, const RunPlace &place) {
  Json sums = Json::object();
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    sums[entry.path().filename().string()] = {{"bytes", entry.file_size()},
                                              {"sum", sumOf(entry.path().string())}};
  Json state = {{"version", 1},
                {"step", place.step},
                {"seed", place.seed},
                {"shuffle", place.shuffle},
                {"step_samples", place.stepSamples},
                {"files", sums}};
  writeText(folder / kState, state.dump(2) + "\n");
}

void saveCheckpoint(Session &session, const NamedTensors &tensors, const RunPlace &place,
                    const std::string &folder, int64_t keep, int64_t maxFileBytes) {
  std::vector<WeightToWrite> state;
  for (const NamedTensor &tensor : tensors.all())
    if (isState(session.getProgram(), tensor))
      state.push_back({tensor.name, tensor.dtype, tensor.shape,
                       [&](char *data) { readTensor(session, tensor, data); }});
  if (!session.isFirst())
    return writeWeightFolder("", state, maxFileBytes);
  fs::path partial = fs::path(folder) / ".partial";
  try {
    fs::create_directories(folder);
    fs::remove_all(partial); // of a run that was killed while it saved
    fs::create_directory(partial);
    writeWeightFolder(partial.string(), state, maxFileBytes);
    writeState(partial, place);
    std::string name = chooseName(folder, place.step);
    fs::rename(partial, fs::path(folder) / name);
    writeText(fs::path(folder) / kLatest, name + "\n");
    removeOlder(folder, keep);
  } catch (const fs::filesystem_error &error) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    PSRT_FAIL(BadInput, "cannot save to \"%s\": %s", folder.c_str(),
              error.code().message().c_str());
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
}

//===--- loading ----------------------------------------------------------===//

static std::string readLatest(const fs::path &path) {
  MappedFile file(path.string());
  std::string name(file.data(), file.size());
  while (!name.empty() && std::isspace((unsigned char)name.back()))
    name.pop_back();
  if (!parseName(name))
    PSRT_FAIL(BadInput, "\"%s\" names no checkpoint: \"%s\"", path.c_str(), name.c_str());
  return name;
}

bool hasCheckpoint(const std::string &folder) { return fs::exists(fs::path(folder) / kLatest); }

Checkpoint::Checkpoint(const std::string &given) : path(given) {
  if (hasCheckpoint(given))
    path = (fs::path(given) / readLatest(fs::path(given) / kLatest)).string();
  fs::path state = fs::path(path) / kState;
  if (!fs::exists(state))
    PSRT_FAIL(BadInput, "\"%s\" is no checkpoint: it has no %s, nor a pointer \"%s\" to one",
              path.c_str(), kState, kLatest);
  MappedFile text(state.string());
  try {
    Json json = Json::parse(text.data(), text.data() + text.size());
    if (json.at("version").get<int>() != 1)
      PSRT_FAIL(BadInput, "\"%s\" is of version %d; this program reads 1", state.c_str(),
                json.at("version").get<int>());
    place = {json.at("step").get<int64_t>(), json.at("seed").get<uint64_t>(),
             json.at("shuffle").get<bool>(), json.at("step_samples").get<int64_t>()};
    for (const auto &[name, file] : json.at("files").items()) {
      fs::path at = fs::path(path) / name;
      if (name.find('/') != std::string::npos || !fs::exists(at))
        PSRT_FAIL(BadInput, "checkpoint \"%s\" lacks its file \"%s\"", path.c_str(), name.c_str());
      auto bytes = file.at("bytes").get<uint64_t>();
      if (fs::file_size(at) != bytes)
        PSRT_FAIL(BadInput, "\"%s\" has %llu bytes, %llu were written: it is not whole", at.c_str(),
                  (unsigned long long)fs::file_size(at), (unsigned long long)bytes);
      if (sumOf(at.string()) != file.at("sum").get<std::string>())
        PSRT_FAIL(BadInput, "\"%s\" is not as it was written (its sum differs)", at.c_str());
    }
  } catch (const nlohmann::json::exception &error) {
    PSRT_FAIL(BadInput, "\"%s\" is no state of a checkpoint: %s", state.c_str(), error.what());
  }
  if (place.step < 0)
    PSRT_FAIL(BadInput, "\"%s\" is at step %lld", state.c_str(), (long long)place.step);
  files = std::make_unique<WeightFiles>(path);
}

/// State that belongs to a precision, not to the model and its optimizer: the scale of the loss.
static bool isOfPrecision(const std::string &name) { return name.rfind("loss_scale", 0) == 0; }

std::vector<std::string> Checkpoint::load(Session &session, const NamedTensors &tensors) const {
  std::vector<std::string> notes;
  std::vector<std::string> differing;
  std::set<std::string> wanted;
  for (const NamedTensor &tensor : tensors.all()) {
    if (!isState(session.getProgram(), tensor))
      continue;
    wanted.insert(tensor.name);
    const SafetensorsFile::Tensor *found = files->find(tensor.name);
    if (!found && isOfPrecision(tensor.name)) {
      notes.push_back(format("checkpoint \"%s\" has no \"%s\": it starts afresh", path.c_str(),
                             tensor.name.c_str()));
      continue;
    }
    std::string has = found ? describeTensor(found->dtype, found->shape) : "nothing";
    std::string needs = describeTensor(tensor.dtype, tensor.shape);
    if (has != needs)
      differing.push_back(format("\"%s\": it has %s, the program %s", tensor.name.c_str(),
                                 has.c_str(), needs.c_str()));
  }
  for (const auto &[name, tensor] : files->tensors())
    if (!wanted.count(name) && isOfPrecision(name))
      notes.push_back(format("checkpoint \"%s\" has \"%s\", which this program has not: it is left "
                             "out",
                             path.c_str(), name.c_str()));
    else if (!wanted.count(name))
      differing.push_back(format("\"%s\": it has %s, the program nothing", name.c_str(),
                                 describeTensor(tensor.dtype, tensor.shape).c_str()));
  std::string first;
  for (size_t i = 0; i < differing.size() && i < 3; ++i)
    first += (i ? "; " : "") + differing[i];
  if (!differing.empty())
    PSRT_FAIL(BadInput,
              "checkpoint \"%s\" is of another model or optimizer, %zu tensors differ: %s%s",
              path.c_str(), differing.size(), first.c_str(), differing.size() > 3 ? "; ..." : "");
  for (const NamedTensor &tensor : tensors.all())
    if (const SafetensorsFile::Tensor *found = files->find(tensor.name);
        found && isState(session.getProgram(), tensor))
      writeTensor(session, tensor, found->data);
  return notes;
}

} // namespace psrt
