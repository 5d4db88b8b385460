// Sets the initial values of variables: from files, constants or raw data, or drawn at random.
#include "psrt/payload.h"
#include "runtime/core/Element.h"
#include "runtime/core/InParallel.h"
#include "runtime/core/MemoryPieces.h"
#include "runtime/data/MappedFile.h"
#include "runtime/session/InitialValue.h"
#include "runtime/session/Session.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>

namespace psrt {
namespace {

/// Returns the 64-bit FNV-1a hash as hex; the compiler uses the same hash.
std::string hashBytes(const char *bytes, size_t count) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < count; ++i)
    hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3;
  return format("%016llx", (unsigned long long)hash);
}

/// The part of a mapped file from which initial values are read.
struct Bytes {
  const char *data = nullptr;
  int64_t size = 0;
  std::string path; ///< path of the file, for messages
};

/// Opens the files with the initial values of one rank. Fails if a file has changed since it was
/// compiled.
class Files {
public:
  Files(const ProgramSource &source, const std::vector<WeightFile> &compiled, EntryChecks &checks)
      : checks(checks), source(source), compiled(compiled) {}
  const Bytes &open(const Variable &variable) {
    const std::string &name = variable.file.path;
    auto it = known.find(name);
    if (it == known.end())
      it = known.emplace(name, name.empty() ? openOwn() : openOther(name, variable)).first;
    return it->second;
  }
  EntryChecks &checks;

private:
  /// Opens the weights that are appended to the program's own file.
  Bytes openOwn() {
    const MappedFile &file = files.emplace_back(source.path);
    psrt_payload_end end{};
    if (file.size() >= sizeof(end))
      std::memcpy(&end, file.data() + file.size() - sizeof(end), sizeof(end));
    bool is = std::memcmp(end.magic, PSRT_PAYLOAD_MAGIC, sizeof(end.magic)) == 0;
    if (!is || end.begin > file.size() || end.size > file.size() - end.begin)
      PSRT_FAIL(
          BadInput,
          "\"%s\" was compiled with embedded weights (--weights copy), which are missing from its "
          "end; copy the whole file and do not strip it",
          source.path.c_str());
    return {file.data() + end.begin, int64_t(end.size), source.path};
  }
  Bytes openOther(const std::string &name, const Variable &variable) {
    std::vector<std::string> paths = listPaths(name);
    try {
      files.emplace_back(choosePath(name, paths));
    } catch (const Error &error) {
      std::string alternatives;
      for (size_t i = 0; i + 1 < paths.size(); ++i)
        alternatives += (i ? ", \"" : "; nor is it at \"") + paths[i] + "\"";
      PSRT_FAIL(BadInput,
                "%s%s; this file contains the initial value of \"%s\"; restore the file, or pass "
                "--weights FILE",
                error.what(), alternatives.c_str(), variable.displayName().c_str());
    }
    const MappedFile &file = files.back();
    check(name, file);
    return {file.data(), int64_t(file.size()), file.path()};
  }
  void check(const std::string &name, const MappedFile &file) const {
    for (const WeightFile &weights : compiled) {
      if (weights.path != name)
        continue;
      if (int64_t(file.size()) != weights.bytes)
        PSRT_FAIL(BadInput,
                  "\"%s\" has %zu bytes, but had %lld when the program was compiled; compile again",
                  file.path().c_str(), file.size(), (long long)weights.bytes);
      if (hashBytes(file.data() + weights.bytes - weights.hashed, weights.hashed) != weights.hash)
        PSRT_FAIL(BadInput,
                  "\"%s\" has changed since the program was compiled (its content differs); "
                  "compile again",
                  file.path().c_str());
    }
  }
  /// Returns the paths to search for a file, in this order: its compile-time name, relative to the
  /// program's folder; its name without folders, in the program's folder; its absolute path at
  /// compile time; its compile-time name, relative to the current folder.
  std::vector<std::string> listPaths(const std::string &name) const {
    std::vector<std::string> paths;
    auto add = [&](const std::string &path) {
      if (!path.empty() && std::find(paths.begin(), paths.end(), path) == paths.end())
        paths.push_back(path);
    };
    if (!source.path.empty() && name[0] != '/')
      add(source.folder() + "/" + name);
    if (!source.path.empty())
      add(source.folder() + "/" + name.substr(name.rfind('/') + 1));
    if (const WeightFile *weights = findCompiled(name))
      add(weights->absolute);
    add(name);
    return paths;
  }
  const WeightFile *findCompiled(const std::string &name) const {
    for (const WeightFile &weights : compiled)
      if (weights.path == name)
        return &weights;
    return nullptr;
  }
  /// Returns the first path with a file of the right size, else the first path with a file, else
  /// the last path.
  std::string choosePath(const std::string &name, const std::vector<std::string> &paths) const {
    const WeightFile *weights = findCompiled(name);
    const std::string *found = nullptr;
    for (const std::string &path : paths) {
      std::error_code error;
      uintmax_t bytes = std::filesystem::file_size(path, error);
      if (error)
        continue;
      if (!weights || int64_t(bytes) == weights->bytes)
        return path;
      found = found ? found : &path;
    }
    return found ? *found : paths.back();
  }
  const ProgramSource &source;
  const std::vector<WeightFile> &compiled;
  std::deque<MappedFile> files;
  std::map<std::string, Bytes> known; ///< open files by name
};

/// Returns whether a variable is a part of the file's tensor.
bool isPart(const Variable &variable) {
  return !variable.file.lower.empty() &&
         variable.file.shape.size() == variable.placement.shape.size();
}

/// Converts a global index of a variable to an index of the file's tensor, of which the variable is
/// a part. Example: for rows [2, 4) of a [4, 3] tensor, index 0 becomes 6.
int64_t indexInFile(const Variable &variable, int64_t global) {
  const Variable::File &file = variable.file;
  int64_t result = 0, stride = 1;
  for (size_t d = variable.placement.shape.size(); d-- > 0;) {
    int64_t size = variable.placement.shape[d];
    result += (global % size + file.lower[d]) * stride;
    global /= size;
    stride *= file.shape[d];
  }
  return result;
}

/// Writes `count` elements to a variable, converted from the initial dtype of `source`.
void writeElements(const Variable &variable, char *to, const Variable &source, const char *from,
                   int64_t count) {
  if (source.initialDtype == variable.dtype)
    std::memcpy(to, from, count * dtypeSize(variable.dtype));
  else
    convertFloats(from, source.initialDtype, to, variable.dtype, count);
}

/// Copies initial values from a file. `source` is the variable that has the initial value:
/// `variable`, or the variable of which it is a copy.
void copyFromFile(const Variable &variable, const Variable &source, const Bytes &file,
                  const Mesh &mesh, EntryChecks &checks, Rank &rank) {
  int64_t size = dtypeSize(source.initialDtype), ownSize = dtypeSize(variable.dtype);
  const Variable::File &init = source.file;
  bool part = isPart(source);
  int64_t whole = variable.placement.count();
  if (part) {
    whole = 1;
    for (int64_t n : init.shape)
      whole *= n;
  }
  int64_t end = init.offset + std::max(whole * size, init.crc ? init.bytes : 0);
  if (init.offset < 0 || end > file.size)
    PSRT_FAIL(
        BadInput,
        "\"%s\" has %lld bytes, but variable \"%s\" is at bytes %lld to %lld: this is not the "
        "file from which the program was compiled; compile again",
        file.path.c_str(), (long long)file.size, source.displayName().c_str(),
        (long long)init.offset, (long long)end);
  if (init.crc)
    checks.check(source, file.path, file.data + init.offset);
  PieceWriter writer(*rank.memory, variable.addresses.at(rank.stage), variable.localBytes());
  const char *data = file.data + init.offset;
  // In a part of a file's tensor, at most one row of the variable is contiguous.
  int64_t row = part && !variable.placement.shape.empty() ? variable.placement.shape.back() : whole;
  forEachRun(variable.placement, mesh, rank.coordinates,
             [&](int64_t local, int64_t global, int64_t count) {
               while (count > 0) {
                 int64_t n = part ? std::min(count, row - global % row) : count;
                 int64_t from = part ? indexInFile(source, global) : global;
                 writer.write(local, n, ownSize, [&](char *to, int64_t at, int64_t some) {
                   writeElements(variable, to, source, data + (from + at) * size, some);
                 });
                 local += n, global += n, count -= n;
               }
             });
  writer.finish();
}

/// Minimum number of elements per thread: drawing fewer takes less time than starting a thread.
constexpr int64_t kDrawnByThread = 1 << 14;

/// Returns the value of element `global`: a random number, or the constant that all elements have.
double getNumber(const Variable &source, uint64_t key, int64_t global) {
  if (source.hasValue)
    return source.value;
  int64_t index = isPart(source) ? indexInFile(source, global) : global;
  return drawInitial(source.distribution == Distribution::Normal, key, index, source.parameters[0],
                     source.parameters[1]);
}

void initialize(const Variable &variable, const Variable &source, const Mesh &mesh, uint64_t seed,
                Files &files, Rank &rank) {
  int64_t size = dtypeSize(variable.dtype), sourceSize = dtypeSize(source.initialDtype);
  bool first = mesh.shardIndex(variable.placement.partial, rank.coordinates) == 0;
  if (!first)
    return; // partial over an axis: only shard 0 gets the value, the other shards stay zero
  if (source.hasFile && !source.distribution)
    return copyFromFile(variable, source, files.open(source), mesh, files.checks, rank);
  if (!source.data.empty() &&
      int64_t(source.data.size()) != variable.placement.count() * sourceSize)
    PSRT_FAIL(BadInput, "variable \"%s\" has %zu bytes of data, but its type needs %lld",
              source.displayName().c_str(), source.data.size(),
              (long long)(variable.placement.count() * sourceSize));
  bool zero = !source.hasValue && source.data.empty() && !source.distribution;
  if (zero || (source.hasValue && source.value == 0 && !std::signbit(source.value)))
    return; // new memory is zero
  uint64_t key = initialKey(seed, source.displayName());
  auto fill = [&](char *to, int64_t global, int64_t count) {
    if (!source.data.empty())
      return writeElements(variable, to, source, source.data.data() + global * sourceSize, count);
    inParallel(count, rank.threads, kDrawnByThread, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        char number[8]; // rounded to the dtype of `source`, as a parameter is
        storeElement(number, source.dtype, getNumber(source, key, global + i));
        if (source.dtype == variable.dtype)
          std::memcpy(to + i * size, number, size);
        else
          convertFloats(number, source.dtype, to + i * size, variable.dtype, 1);
      }
    });
  };
  PieceWriter writer(*rank.memory, variable.addresses.at(rank.stage), variable.localBytes());
  forEachRun(variable.placement, mesh, rank.coordinates,
             [&](int64_t local, int64_t global, int64_t count) {
               writer.write(local, count, size,
                            [&](char *to, int64_t at, int64_t n) { fill(to, global + at, n); });
             });
  writer.finish();
}

} // namespace

/// Fails for a variable without an initial value: the program was compiled with --weights none.
static void requireGiven(const Program &program, const Variable &variable) {
  int64_t count = 0;
  for (const Variable &other : program.variables)
    count += other.given;
  PSRT_FAIL(
      BadArgument,
      "the program has no initial value of \"%s\" (one of %lld such parameters), because it was "
      "compiled with --weights none; give --weights FILE.safetensors or a Hugging Face folder",
      variable.displayName().c_str(), (long long)count);
}

void initializeVariables(const Program &program, const ProgramSource &source,
                         const SessionOptions &options, EntryChecks &checks, Rank &rank) {
  Files files(source, program.files, checks);
  auto isGiven = [&](const std::string &name) { return options.given.contains(name); };
  for (const Variable &variable : program.variables) {
    const Variable &source = variable.kind == VariableKind::Copy
                                 ? program.variables[program.variable(variable.of)]
                                 : variable;
    if (std::any_of(source.names.begin(), source.names.end(), isGiven))
      continue;
    if (source.given)
      requireGiven(program, source);
    if (variable.addresses.isAt(rank.stage))
      initialize(variable, source, program.mesh, options.seed, files, rank);
  }
}

} // namespace psrt
