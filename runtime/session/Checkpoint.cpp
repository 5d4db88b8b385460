// Saves and loads checkpoints of the whole training state.
#include "runtime/session/Checkpoint.h"
#include "runtime/core/Element.h"
#include "runtime/core/FileFields.h"
#include "runtime/core/NewFile.h"
#include "runtime/core/ProgramJson.h"
#include "runtime/data/FolderLock.h"
#include "runtime/data/OutputFile.h"
#include "runtime/data/WeightFiles.h"
#include "runtime/session/CheckpointFolder.h"
#include "runtime/session/FiniteWeights.h"
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace psrt {

namespace fs = std::filesystem;
using Json = nlohmann::json;

static constexpr int64_t kVersion = 2;
static const char *const kLatest = "latest";
static const char *const kOldIndex =
    "checkpoint.json"; ///< of format version 1, which has whole tensors

/// Returns whether a checkpoint must contain a tensor. A tensor is state if a step reads values
/// that an earlier step has written. Gradients and accumulators of a step are not state.
static bool isState(const Program &program, const NamedTensor &tensor) {
  const Variable &variable = program.variables[tensor.parts.front().variable];
  if (tensor.kind == VariableKind::Optimizer && !tensor.isOfParameter) { // a step count
    int of = program.variable(variable.of);
    return of < 0 || !isStateOf(variable, program.variables[of]);
  }
  return tensor.kind == VariableKind::Parameter || tensor.kind == VariableKind::Buffer ||
         tensor.kind == VariableKind::Average || tensor.kind == VariableKind::Optimizer;
}

//===--- names ------------------------------------------------------------===//

static std::string chooseName(const std::string &folder, int64_t step) {
  std::string name = format("%s%06lld", kCheckpointPrefix, (long long)step);
  for (int again = 2; fs::exists(fs::path(folder) / name); ++again)
    name = format("%s%06lld-%d", kCheckpointPrefix, (long long)step, again);
  return name;
}

//===--- saving -----------------------------------------------------------===//

static void writeText(const fs::path &path, const std::string &text) {
  OutputFile file(path.string());
  file.write(text.data(), text.size());
  file.finish();
  file.commit();
}

static std::string sumOf(const Json &json) {
  std::string text = json.dump();
  return hashOfBytes(text.data(), text.size());
}

/// Returns the ranges as JSON: [[[begin, end], ...] per dim].
static Json describeRanges(const IndexRanges &ranges) {
  Json result = Json::array();
  for (const std::vector<IndexRange> &dim : ranges) {
    result.push_back(Json::array());
    for (const IndexRange &range : dim)
      result.back().push_back({range.begin, range.end});
  }
  return result;
}

static std::vector<const NamedTensor *> findState(const Program &program,
                                                  const NamedTensors &tensors) {
  std::vector<const NamedTensor *> result;
  for (const NamedTensor &tensor : tensors.all())
    if (isState(program, tensor))
      result.push_back(&tensor);
  return result;
}

namespace {

/// Saves one checkpoint. All processes make the same calls.
class CheckpointWriter {
public:
  CheckpointWriter(Session &session, const NamedTensors &tensors, const SaveOptions &options)
      : session(session), program(session.getProgram()), state(findState(program, tensors)),
        shards(planShards(program, state)), options(options), folder(options.folder) {}

  std::string save(const RunPosition &position);

private:
  /// A file of one rank and its shards.
  struct File {
    std::string name;
    std::vector<const Shard *> shards;
    SafetensorsWriter writer;
  };
  /// Plans the files of a rank. `here` is the rank whose values are written; null if only the names
  /// and offsets of the shards are needed.
  std::vector<File> layOut(int rank, const Rank *here) const;
  void removeLeftovers() const;
  void makeFolder() const;
  void collectSums();
  /// Writes the files of this process. Returns {"files": {NAME: {"bytes", "sum"}}} or {"failure":
  /// "..."}.
  Json writeHere();
  Json writeRank(const Rank &rank) const;
  Json describeTensors() const;
  /// Writes the index, publishes the checkpoint and returns its path.
  std::string finish(const RunPosition &position, const Json &files) const;
  /// Calls `body`. Removes the partial folder if `body` fails.
  template <typename Body> void cleanly(Body &&body) const;
  /// Calls `body` on rank 0, through `cleanly`. If `body` fails, throws SaveFailed in every
  /// process.
  template <typename Body> void inFirst(Body &&body);

  Session &session;
  const Program &program;
  std::vector<const NamedTensor *> state;
  std::vector<std::vector<Shard>> shards; ///< by rank
  const SaveOptions &options;
  fs::path folder, partial;
  std::map<int, std::vector<char>> sums; ///< values of variables that are sums over ranks
};

template <typename Body> void CheckpointWriter::cleanly(Body &&body) const {
  std::error_code ignored;
  try {
    body();
  } catch (const fs::filesystem_error &error) {
    fs::remove_all(partial, ignored);
    PSRT_FAIL(BadInput, "cannot save to \"%s\": %s", folder.c_str(),
              error.code().message().c_str());
  } catch (...) {
    fs::remove_all(partial, ignored);
    throw;
  }
}

template <typename Body> void CheckpointWriter::inFirst(Body &&body) {
  std::string failure;
  try {
    if (session.isFirst())
      cleanly(body);
  } catch (const Error &error) {
    failure = error.status.message;
  }
  if (failure = session.broadcast(failure); !failure.empty())
    throw SaveFailed({StatusCode::BadInput, failure, __FILE__, __LINE__});
}

std::vector<CheckpointWriter::File> CheckpointWriter::layOut(int rank, const Rank *here) const {
  std::vector<WeightToWrite> weights;
  for (const Shard &shard : shards[rank]) {
    const Variable &variable = program.variables[shard.variable];
    weights.push_back({shard.key, variable.dtype, shapeOf(shard.ranges), [=, this](char *to) {
                         if (!shard.isCollected) {
                           copyShard(program, *here, variable, to);
                           return checkFinite(program, *shard.tensor, to,
                                              countElements(shapeOf(shard.ranges)), session.step);
                         }
                         const std::vector<char> &sum = sums.at(shard.variable);
                         std::memcpy(to, sum.data(), sum.size());
                       }});
  }
  std::vector<File> files;
  const WeightToWrite *first = weights.data();
  for (const auto &part : cutIntoFiles(weights, options.maxFileBytes)) {
    if (part.empty())
      continue;
    File &file = files.emplace_back();
    file.name = format("rank-%05d%s.safetensors", rank,
                       files.size() > 1 ? format("-%zu", files.size()).c_str() : "");
    for (const WeightToWrite *weight : part) {
      file.shards.push_back(&shards[rank][weight - first]);
      file.writer.add(weight->name, weight->dtype, weight->shape, weight->fill);
    }
  }
  return files;
}

/// Removes unfinished files of killed runs. The caller must hold the folder's lock, so that no
/// other run is saving to the folder. If a rank of a killed run is still writing, the next save
/// removes the files of this rank.
void CheckpointWriter::removeLeftovers() const {
  std::error_code ignored;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(kPartialPrefix) || isLeftover(name, kLatest))
      fs::remove_all(entry.path(), ignored);
  }
}

void CheckpointWriter::makeFolder() const {
  if (options.lock)
    options.lock->check();
  fs::create_directories(folder);
  removeLeftovers();
  if (!fs::create_directory(partial)) // false if the folder exists, although its name is unique
    PSRT_FAIL(BadInput, "cannot save to \"%s\": \"%s\" exists", folder.c_str(), partial.c_str());
}

void CheckpointWriter::collectSums() {
  for (const Shard &shard : shards.front())
    if (shard.isCollected) {
      const Variable &variable = program.variables[shard.variable];
      std::vector<char> &whole = sums[shard.variable];
      whole.resize(variable.placement.count() * dtypeSize(variable.dtype));
      session.readVariable(shard.variable, whole.data());
    }
}

Json CheckpointWriter::writeRank(const Rank &rank) const {
  Json result = Json::object();
  for (const File &file : layOut(rank.index, &rank)) {
    std::string path = (partial / file.name).string();
    file.writer.write(path);
    MappedFile written(path);
    result[file.name] = {{"bytes", written.size()}, {"sum", hashOfFile(written)}};
  }
  return result;
}

Json CheckpointWriter::writeHere() {
  Json files = Json::object();
  std::string failure;
  std::mutex mutex;
  session.parallel([&](Rank &rank) {
    Json written = Json::object();
    std::string why;
    try {
      written = writeRank(rank);
    } catch (const Error &error) {
      why = error.status.message;
    }
    std::lock_guard<std::mutex> lock(mutex);
    files.update(written);
    failure = why.empty() ? failure : why;
  });
  return failure.empty() ? Json{{"files", files}} : Json{{"failure", failure}};
}

Json CheckpointWriter::describeTensors() const {
  Json result = Json::object();
  for (const NamedTensor *tensor : state)
    result[tensor->name] = {
        {"dtype", dtypeName(tensor->dtype)}, {"shape", tensor->shape}, {"shards", Json::array()}};
  for (int rank = 0; rank < int(shards.size()); ++rank)
    for (const File &file : layOut(rank, nullptr)) {
      std::map<std::string, int64_t> offsets = file.writer.offsets();
      for (const Shard *shard : file.shards)
        result[shard->tensor->name]["shards"].push_back(
            {{"file", file.name},
             {"offset", offsets.at(shard->key)},
             {"ranges", describeRanges(shard->ranges)}});
    }
  return result;
}

std::string CheckpointWriter::finish(const RunPosition &position, const Json &files) const {
  Json index = {{"version", kVersion},
                {"step", position.step},
                {"seed", position.seed},
                {"shuffle", position.shuffle},
                {"step_samples", position.stepSamples},
                {"run", position.run},
                {"files", files},
                {"tensors", describeTensors()}};
  if (position.losses)
    index["losses"] = {{"lines", position.losses->lines}, {"sum", position.losses->sum}};
  index["sum"] = sumOf(index);
  writeText(partial / kCheckpointIndex, index.dump() + "\n");
  if (options.lock)
    options.lock->check(); // last check before the checkpoint becomes visible
  std::string name = chooseName(folder, position.step);
  fs::rename(partial, folder / name);
  writeText(folder / kLatest, name + "\n");
  removeOlderCheckpoints(folder, options.keep, position.run,
                         {(folder / name).string(), options.loaded});
  return (folder / name).string();
}

/// Returns "\"state/step-000100\" (12.0 MB)".
static std::string describeSaved(const std::string &path, const Json &files) {
  double bytes = 0;
  for (const Json &file : files)
    bytes += double(file.at("bytes").get<uint64_t>());
  return "\"" + path + "\" (" + describeBytes(bytes) + ")";
}

std::string CheckpointWriter::save(const RunPosition &position) {
  partial = folder / session.broadcast(kPartialPrefix + drawUniqueName());
  inFirst([&] { makeFolder(); }); // other processes wait until the folder exists
  collectSums();
  std::vector<std::string> reports = session.collect(writeHere().dump());
  std::string saved;
  inFirst([&] {
    Json files = Json::object();
    for (const std::string &text : reports) {
      Json report = Json::parse(text);
      if (report.contains("failure"))
        PSRT_FAIL(BadInput, "%s", report["failure"].get<std::string>().c_str());
      files.update(report["files"]);
    }
    saved = describeSaved(finish(position, files), files);
  });
  return saved;
}

} // namespace

std::string saveCheckpoint(Session &session, const NamedTensors &tensors,
                           const RunPosition &position, const SaveOptions &options) {
  return CheckpointWriter(session, tensors, options).save(position);
}

//===--- loading ----------------------------------------------------------===//

static std::string readLatest(const fs::path &path) {
  MappedFile file(path.string());
  std::string name(file.data(), file.size());
  while (!name.empty() && std::isspace((unsigned char)name.back()))
    name.pop_back();
  if (!parseCheckpointName(name))
    PSRT_FAIL(
        BadInput,
        "\"%s\" does not name a checkpoint: it contains \"%s\"; pass a checkpoint's own folder",
        path.c_str(), name.c_str());
  return name;
}

std::vector<std::string> listSavedFiles(const std::string &folder) {
  return {(fs::path(folder) / kLatest).string(), (fs::path(folder) / ".lock").string()};
}

bool hasCheckpoint(const std::string &folder) { return fs::exists(fs::path(folder) / kLatest); }

/// Returns a hint for a missing folder: the checkpoints next to it.
static std::string describeOthers(const fs::path &missing) {
  fs::path folder = missing.has_parent_path() ? missing.parent_path() : fs::path(".");
  std::vector<std::pair<std::pair<int64_t, int64_t>, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (auto number = parseCheckpointName(name))
      found.emplace_back(*number, name);
  }
  if (found.empty())
    return "give a folder that --save has written";
  std::sort(found.begin(), found.end());
  std::string names;
  size_t first = found.size() > 8 ? found.size() - 8 : 0; // show the newest checkpoints
  for (size_t i = first; i < found.size(); ++i)
    names += (i > first ? ", " : first ? "..., " : "") + found[i].second;
  return "\"" + folder.string() + "\" has " + names;
}

Checkpoint::Checkpoint(const std::string &folder) : given(folder), path(folder) {
  std::error_code error;
  if (!fs::is_directory(given, error))
    PSRT_FAIL(BadArgument, "--load \"%s\": no such folder; %s", given.c_str(),
              describeOthers(given).c_str());
  if (hasCheckpoint(given))
    path = (fs::path(given) / readLatest(fs::path(given) / kLatest)).string();
  fs::path index = fs::path(path) / kCheckpointIndex;
  if (fs::exists(fs::path(path) / kOldIndex) && !fs::exists(index))
    PSRT_FAIL(
        BadInput,
        "\"%s\" was saved by an earlier version, as whole tensors instead of shards; resume it "
        "with a program of that version",
        path.c_str());
  if (!fs::exists(index))
    PSRT_FAIL(BadInput, "\"%s\" is not a checkpoint: it has neither %s nor a pointer \"%s\"",
              path.c_str(), kCheckpointIndex, kLatest);
  MappedFile text(index.string());
  Json json = parseJsonFile({text.data(), text.size()}, index.string(), "index of a checkpoint",
                            "; load another checkpoint");
  FileFields fields(json, index.string());
  int64_t version = fields.integer("version");
  if (version != kVersion)
    PSRT_FAIL(BadInput,
              "\"%s\" has format version %lld, but this program reads version %lld; load it with a "
              "program that was compiled by the version that saved it",
              index.c_str(), (long long)version, (long long)kVersion);
  checkSum(json, fields, index.string());
  readPosition(fields);
  FileFields listed = fields.fields("files"), tensors = fields.fields("tensors");
  for (const std::string &name : listed.keys())
    addFile(name, listed.fields(name));
  for (const std::string &name : tensors.keys())
    addTensor(name, tensors.fields(name));
}

/// Fails if the index was changed after it was written, that is, if its contents do not match the
/// hash in it.
void Checkpoint::checkSum(Json json, const FileFields &fields, const std::string &index) {
  std::string expected = fields.text("sum");
  json.erase("sum");
  if (sumOf(json) != expected)
    PSRT_FAIL(BadInput,
              "\"%s\" was changed after it was written: its hash differs; load another checkpoint",
              index.c_str());
}

/// Reads and checks the fields of RunPosition.
void Checkpoint::readPosition(const FileFields &fields) {
  constexpr int64_t kMaxSamples = int64_t(1) << 53;
  fields.allow({"version", "step", "seed", "shuffle", "step_samples", "run", "losses", "files",
                "tensors", "sum"});
  position.step = fields.integer("step", 0, kMaxSteps);
  position.seed = fields.number("seed");
  position.shuffle = fields.boolean("shuffle");
  position.stepSamples = fields.integer("step_samples", 0, kMaxSamples);
  if (fields.has("run"))
    position.run = fields.text("run");
  int64_t samples = 0;
  if (__builtin_mul_overflow(position.step, position.stepSamples, &samples))
    fields.refuse("step",
                  format("a step whose number of samples fits 64 bits, at %lld samples per step",
                         (long long)position.stepSamples));
  auto named = parseCheckpointName(fs::path(path).filename().string());
  if (named && named->first != position.step)
    fields.refuse("step", format("%lld, as in the name of its folder", (long long)named->first));
  if (!fields.has("losses"))
    return;
  FileFields losses = fields.fields("losses");
  losses.allow({"lines", "sum"});
  position.losses = LineMark{losses.integer("lines", 0), losses.text("sum")};
}

void Checkpoint::addFile(const std::string &name, const FileFields &fields) {
  fs::path at = fs::path(path) / name;
  bool isPlain = !name.empty() && name != "." && name != ".." &&
                 name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (!isPlain)
    PSRT_FAIL(BadInput,
              "\"%s\": \"files\" names \"%s\", which is outside of the checkpoint; load another "
              "checkpoint",
              (fs::path(path) / kCheckpointIndex).c_str(), name.c_str());
  fields.allow({"bytes", "sum"});
  int64_t bytes = fields.integer("bytes", 0);
  std::error_code error;
  if (!fs::is_regular_file(at, error))
    PSRT_FAIL(
        BadInput,
        "checkpoint \"%s\" has no file \"%s\", which its index names; load another checkpoint",
        path.c_str(), name.c_str());
  int64_t found = int64_t(fs::file_size(at, error));
  if (error || found != bytes)
    PSRT_FAIL(BadInput,
              "\"%s\" has %lld bytes, but %lld were written: the file is incomplete; load another "
              "checkpoint",
              at.c_str(), (long long)found, (long long)bytes);
  files.try_emplace(name, at.string(), fields.text("sum"), bytes);
}

/// Reads the ranges of each dim. The ranges must ascend and be within the tensor.
static IndexRanges parseRanges(const FileFields &fields, const std::vector<int64_t> &shape) {
  const Json &json = fields.list("ranges");
  IndexRanges result;
  bool good = json.size() == shape.size();
  for (size_t d = 0; good && d < shape.size(); ++d) {
    result.emplace_back();
    int64_t end = 0;
    good = json[d].is_array();
    for (size_t i = 0; good && i < json[d].size(); ++i) {
      const Json &range = json[d][i];
      good = range.is_array() && range.size() == 2 && range[0].is_number_unsigned() &&
             range[1].is_number_unsigned() && range[1].get<uint64_t>() <= uint64_t(shape[d]) &&
             range[0].get<uint64_t>() < range[1].get<uint64_t>() &&
             range[0].get<uint64_t>() >= uint64_t(end);
      if (good)
        result.back().push_back({range[0].get<int64_t>(), end = range[1].get<int64_t>()});
    }
  }
  if (!good)
    fields.refuse("ranges", format("ascending ranges within each of the %zu dims of its tensor",
                                   shape.size()));
  return result;
}

void Checkpoint::addTensor(const std::string &name, const FileFields &fields) {
  fields.allow({"dtype", "shape", "shards"});
  std::optional<Dtype> dtype = findName<Dtype>(fields.text("dtype"));
  if (!dtype)
    fields.refuse("dtype", "a dtype such as \"f32\"");
  SavedTensor tensor{name, *dtype, fields.integers("shape", 0), {}};
  std::optional<int64_t> left = tryCountElements(tensor.shape);
  for (size_t i = 0; i < fields.list("shards").size(); ++i) {
    FileFields part = fields.item("shards", i);
    part.allow({"file", "offset", "ranges"});
    auto file = files.find(part.text("file"));
    if (file == files.end())
      part.refuse("file", "one of \"files\"");
    IndexRanges ranges = parseRanges(part, tensor.shape);
    int64_t count = tryCountElements(shapeOf(ranges)).value_or(kMaxElements),
            bytes = count * dtypeSize(tensor.dtype), most = file->second.size() - bytes;
    if (most < 0)
      PSRT_FAIL(
          BadInput,
          "checkpoint \"%s\": a shard of \"%s\" lies outside of its file; load another checkpoint",
          path.c_str(), name.c_str());
    int64_t offset = part.integer("offset", 0, most);
    left = left.value_or(0) - count;
    file->second.expect({name, tensor.dtype, offset, bytes});
    tensor.shards.push_back({&file->second, offset, std::move(ranges)});
  }
  if (left.value_or(1) != 0)
    PSRT_FAIL(BadInput,
              "checkpoint \"%s\": the shards of \"%s\" do not cover each element once; load "
              "another checkpoint",
              path.c_str(), name.c_str());
  saved.emplace(name, std::move(tensor));
}

std::vector<std::string> Checkpoint::listFiles() const {
  std::vector<std::string> result = {(fs::path(path) / kCheckpointIndex).string()};
  if (given != path)
    result.push_back((fs::path(given) / kLatest).string());
  for (const auto &[name, file] : files)
    result.push_back((fs::path(path) / name).string());
  return result;
}

std::set<std::string> Checkpoint::names() const {
  std::set<std::string> result;
  for (const auto &[name, tensor] : saved)
    result.insert(name);
  return result;
}

/// Returns whether a saved tensor can be loaded as `needs`: equal shapes, and equal dtypes or two
/// float dtypes.
static bool fits(const SavedTensor *has, const NamedTensor &needs) {
  return has && has->shape == needs.shape &&
         (has->dtype == needs.dtype || (isFloat(has->dtype) && isFloat(needs.dtype)));
}

/// Returns whether the name of a state tensor begins with one of `prefixes`. Ignores a leading
/// "state.", which NamedTensors inserts if the model has a tensor of the same name.
static bool beginsWith(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  constexpr std::string_view kInserted = "state.";
  while (name.starts_with(kInserted))
    name.remove_prefix(kInserted.size());
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

/// Returns whether a state tensor exists only in programs that train (not with --inference).
static bool isOfTraining(const std::string &name) {
  return beginsWith(name, {"optimizer.", "ema."});
}

/// Returns whether a state tensor is the loss scale or belongs to fp8 scales. If a checkpoint lacks
/// such a tensor, or has it in another shape (another length of the amax history), the tensor
/// starts at its initial value.
static bool isOfPrecision(const std::string &name) {
  return beginsWith(name, {"loss_scale", "fp8."});
}

/// Returns `"a"`, or `"a" and 12 more`.
static std::string nameFirst(const std::vector<std::string> &names) {
  std::string text = "\"" + names.front() + "\"";
  return names.size() == 1 ? text : text + format(" and %zu more", names.size() - 1);
}

void Checkpoint::check(const std::vector<const NamedTensor *> &state, bool trains) const {
  std::vector<std::string> differing;
  std::set<std::string> wanted;
  for (const NamedTensor *tensor : state) {
    wanted.insert(tensor->name);
    const SavedTensor *found = find(tensor->name);
    bool mayLack = !tensor->isOfModel && isOfPrecision(tensor->name);
    if (!mayLack && !fits(found, *tensor))
      differing.push_back(
          format("\"%s\": the checkpoint has %s, the program has %s", tensor->name.c_str(),
                 found ? describeTensor(found->dtype, found->shape).c_str() : "nothing",
                 describeTensor(tensor->dtype, tensor->shape).c_str()));
  }
  for (const auto &[name, tensor] : saved)
    if (!wanted.contains(name) && !isOfPrecision(name) && (trains || !isOfTraining(name)))
      differing.push_back(format("\"%s\": the checkpoint has %s, the program has nothing",
                                 name.c_str(), describeTensor(tensor.dtype, tensor.shape).c_str()));
  std::string first;
  for (size_t i = 0; i < differing.size() && i < 3; ++i)
    first += (i ? "; " : "") + differing[i];
  if (!differing.empty())
    PSRT_FAIL(BadInput,
              "checkpoint \"%s\" is from another model or optimizer; %zu tensors differ: %s%s",
              path.c_str(), differing.size(), first.c_str(), differing.size() > 3 ? "; ..." : "");
}

const SavedTensor *Checkpoint::find(const std::string &name) const {
  auto it = saved.find(name);
  return it == saved.end() ? nullptr : &it->second;
}

/// Returns notes on tensors that only the program or only the checkpoint has, on tensors with
/// another shape, and on converted dtypes.
std::vector<std::string>
Checkpoint::describeDifferences(const std::vector<const NamedTensor *> &state) const {
  std::vector<std::string> notes, missing, unfit, unknown;
  std::set<std::string> wanted;
  std::map<std::pair<Dtype, Dtype>, int64_t> conversions;
  for (const NamedTensor *tensor : state) {
    wanted.insert(tensor->name);
    const SavedTensor *found = find(tensor->name);
    if (!fits(found, *tensor))
      (found ? unfit : missing).push_back(tensor->name);
    else if (found->dtype != tensor->dtype)
      ++conversions[{found->dtype, tensor->dtype}];
  }
  for (const auto &[name, tensor] : saved)
    if (!wanted.contains(name))
      unknown.push_back(name);
  if (!missing.empty())
    notes.push_back(format("checkpoint \"%s\" has no %s, so %s", path.c_str(),
                           nameFirst(missing).c_str(),
                           missing.size() == 1 ? "it starts at its initial value"
                                               : "they start at their initial values"));
  if (!unfit.empty())
    notes.push_back(format("checkpoint \"%s\" has %s in another shape, so %s", path.c_str(),
                           nameFirst(unfit).c_str(),
                           unfit.size() == 1 ? "it starts at its initial value"
                                             : "they start at their initial values"));
  if (!unknown.empty())
    notes.push_back(format("checkpoint \"%s\" has %s, which this program lacks; %s ignored",
                           path.c_str(), nameFirst(unknown).c_str(),
                           unknown.size() == 1 ? "it is" : "they are"));
  for (const auto &[dtypes, count] : conversions)
    notes.push_back(format("checkpoint \"%s\": %lld tensor%s of %s %s converted to %s",
                           path.c_str(), (long long)count, count == 1 ? "" : "s",
                           dtypeName(dtypes.first), count == 1 ? "is" : "are",
                           dtypeName(dtypes.second)));
  return notes;
}

void Checkpoint::loadTensor(Session &session, const NamedTensor &tensor,
                            const SavedTensor &from) const {
  for (const NamedTensor::Part &part : tensor.parts) {
    const Variable &variable = session.getProgram().variables[part.variable];
    ShardReader reader(from, variable.placement.shape, part.lower, variable.dtype);
    session.setVariable(part.variable, [&](char *to, int64_t first, int64_t count) {
      reader.read(to, first, count);
    });
  }
}

std::vector<std::string> Checkpoint::load(Session &session, const NamedTensors &tensors) const {
  std::vector<const NamedTensor *> state = findState(session.getProgram(), tensors);
  const std::vector<Variable> &variables = session.getProgram().variables;
  check(state, std::any_of(variables.begin(), variables.end(), [](const Variable &variable) {
          return variable.kind == VariableKind::Gradient;
        }));
  for (const NamedTensor *tensor : state)
    if (const SavedTensor *from = find(tensor->name); fits(from, *tensor))
      loadTensor(session, *tensor, *from);
  return describeDifferences(state);
}

} // namespace psrt
