// Reads and writes algorithm files.
#include "runtime/device/cuda/AlgorithmFile.h"
#include "runtime/core/NewFile.h"
#include "runtime/core/Status.h"
#include "runtime/core/StrictJson.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace psrt::cuda {
namespace {

constexpr int kFormat = 1;
constexpr const char *kFormatKey = "parashard_algorithms";
/// The first bytes of every algorithm file, in which JSON keys are sorted. A truncated file begins
/// with all or some of these bytes.
constexpr const char *kBeginning = "{\n \"algorithms\": {";

/// Replaces characters that are unsafe in file names, such as spaces and slashes.
std::string toFileName(std::string text) {
  for (char &c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-')
      c = '_';
  return text;
}

/// Returns the library's name in file names and JSON keys, e.g. "cublaslt".
std::string toKey(const AlgorithmOrigin &origin) {
  std::string key = origin.library;
  for (char &c : key)
    c = char(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

/// Returns the part of a file name that identifies the library: toKey(origin), but "" for cuBLASLt.
/// Files of cuBLASLt existed before those of other libraries, so their names lack this part.
std::string getMark(const AlgorithmOrigin &origin) {
  return origin.library == kCublasLt ? "" : toKey(origin);
}

/// Parses an algorithm file's JSON. Returns false for any other JSON.
bool parse(const nlohmann::json &json, AlgorithmOrigin &origin, AlgorithmMap &result) {
  constexpr size_t kKeys = 5; // number of keys that writeAlgorithms writes
  if (json.at(kFormatKey) != kFormat || json.size() != kKeys)
    return false;
  origin.gpu = json.at("gpu").get<std::string>();
  origin.processors = json.at("processors").get<int>();
  origin.version = json.at(toKey(origin)).get<size_t>();
  result = json.at("algorithms").get<AlgorithmMap>();
  return true;
}

} // namespace

std::string findAlgorithmFile(const AlgorithmOrigin &origin) {
  std::string mark = getMark(origin);
  if (const char *chosen = std::getenv("PSRT_ALGORITHM_CACHE"))
    return !*chosen || mark.empty() ? chosen : std::string(chosen) + "." + mark;
  std::string folder;
  if (const char *caches = std::getenv("XDG_CACHE_HOME"); caches && *caches)
    folder = caches;
  else if (const char *home = std::getenv("HOME"); home && *home)
    folder = std::string(home) + "/.cache";
  if (folder.empty())
    return "";
  return format("%s/parashard/algorithms-%s-%s%zu.json", folder.c_str(),
                toFileName(origin.gpu).c_str(), mark.empty() ? "" : (mark + "-").c_str(),
                origin.version);
}

AlgorithmFileLock::AlgorithmFileLock(const std::string &path) {
  constexpr int kTries = 500, kPauseMicroseconds = 20'000;
  if (path.empty())
    return;
  file = open((path + ".lock").c_str(), O_CREAT | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0644);
  for (int i = 0; file >= 0 && i < kTries && flock(file, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return; // a file system without locks
    usleep(kPauseMicroseconds);
  }
}

AlgorithmFileLock::~AlgorithmFileLock() {
  if (file >= 0)
    close(file); // also releases the lock
}

std::string findOwner(const std::string &path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0)
    return "";
  if (!S_ISREG(status.st_mode))
    return "it is not a regular file";
  std::ifstream stream(path, std::ios::binary);
  std::string begin(std::strlen(kBeginning), ' ');
  stream.read(begin.data(), std::streamsize(begin.size()));
  begin.resize(size_t(stream.gcount()));
  bool isOurs = std::string_view(kBeginning).starts_with(begin);
  return isOurs ? "" : "it is not an algorithm cache";
}

AlgorithmMap readAlgorithms(const std::string &path, const AlgorithmOrigin &origin,
                            std::string &complaint) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    return {};
  AlgorithmMap result;
  AlgorithmOrigin found;
  found.library = origin.library;
  bool isWhole;
  try {
    isWhole = parse(parseStrictly<nlohmann::json>(stream), found, result);
  } catch (const nlohmann::json::exception &) {
    isWhole = false;
  }
  if (!isWhole) {
    complaint = "it is truncated or not an algorithm cache";
    return {};
  }
  if (found == origin)
    return result;
  complaint =
      format("it was measured on %s with %d multiprocessors and %s %zu; this run uses %s with %d "
             "multiprocessors and version %zu",
             found.gpu.c_str(), found.processors, found.library.c_str(), found.version,
             origin.gpu.c_str(), origin.processors, origin.version);
  return {};
}

std::string writeAlgorithms(const std::string &path, const AlgorithmOrigin &origin,
                            const AlgorithmMap &algorithms) {
  nlohmann::json json{{kFormatKey, kFormat},
                      {"gpu", origin.gpu},
                      {"processors", origin.processors},
                      {toKey(origin), origin.version},
                      {"algorithms", algorithms}};
  NewFile file = createBeside(path);
  if (file.descriptor < 0)
    return std::strerror(errno);
  // Bytes that are not valid UTF-8, e.g. in the GPU's name, are replaced.
  std::string text = json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  bool isWritten = write(file.descriptor, text.data(), text.size()) == ssize_t(text.size());
  isWritten = close(file.descriptor) == 0 && isWritten;
  if (isWritten && std::rename(file.path.c_str(), path.c_str()) == 0)
    return "";
  std::string reason = std::strerror(errno);
  unlink(file.path.c_str());
  return reason;
}

} // namespace psrt::cuda
