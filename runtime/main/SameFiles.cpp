// Whether the processes of a job, which may be on several hosts, read and write the same files.
#include "runtime/data/FolderLock.h"
#include "runtime/data/MappedFile.h"
#include "runtime/main/Parts.h"
#include "runtime/session/CheckpointFolder.h"
#include "runtime/session/ShardReader.h"
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

namespace psrt {
namespace {

using Json = nlohmann::json;

/// Returns the size of a file and a sum of parts of it: its ends, and blocks in between. Reading
/// all of the data would take minutes, and files of two versions differ in most places.
Json describeFile(const std::string &path, size_t blocks) {
  constexpr size_t kEnd = 65536, kBlock = 4096;
  try {
    MappedFile file(path);
    std::string sums;
    auto add = [&](size_t at, size_t bytes) {
      sums += sumOfBytes(file.data() + at, std::min(bytes, file.size() - at));
    };
    if (file.size() > 0)
      add(0, kEnd);
    if (file.size() > kEnd)
      add(file.size() - kEnd, kEnd);
    for (size_t i = 0; file.size() > 2 * kEnd && i < blocks; ++i)
      add(file.size() / blocks * i, kBlock);
    return {{"bytes", file.size()}, {"sum", sumOfBytes(sums.data(), sums.size())}};
  } catch (const Error &) {
    return {}; // reading it says why
  }
}

/// The files that a run reads, with its flags: [[path, description], ...].
Json describeInputs(const Flags &flags, const WeightFiles *weights, const std::string &checkpoint) {
  std::vector<std::string> paths = expandPatterns(flags.data.files);
  std::vector<std::string> others = expandPatterns(flags.evalData);
  paths.insert(paths.end(), others.begin(), others.end());
  if (weights)
    for (const SafetensorsFile &file : weights->getFiles())
      paths.push_back(file.path());
  if (!checkpoint.empty()) // its index has a sum of each of its files
    paths.push_back(checkpoint + "/" + kCheckpointIndex);
  size_t blocks = std::min<size_t>(64, 1024 / std::max<size_t>(1, paths.size()));
  Json result = Json::array();
  for (const std::string &path : paths)
    result.push_back({path, describeFile(path, blocks)});
  return result;
}

/// Returns "1416 bytes", or "no file that it can read".
std::string describeSize(const Json &file) {
  return file.is_null() ? "no file that it can read"
                        : std::to_string(file.at("bytes").get<uint64_t>()) + " bytes";
}

const char *const kAdvice =
    "all processes must read the same files: copy them to every host, or name a folder that all "
    "share";

/// Patterns may match other files on another host.
void compareNames(const Json &first, const Json &other, size_t rank) {
  for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    auto nameAt = [i](const Json &files) {
      return i < files.size() ? "\"" + files[i][0].get<std::string>() + "\"" : "no further file";
    };
    if (nameAt(first) != nameAt(other))
      PSRT_FAIL(BadInput, "rank %zu reads %s where rank 0 reads %s; %s", rank,
                nameAt(other).c_str(), nameAt(first).c_str(), kAdvice);
  }
}

void compareFiles(const Json &first, const Json &other, size_t rank) {
  compareNames(first, other, rank);
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] == other[i])
      continue;
    std::string mine = describeSize(first[i][1]), there = describeSize(other[i][1]);
    PSRT_FAIL(BadInput,
              "\"%s\" is not the same for rank %zu and rank 0: rank %zu has %s, rank 0 %s; %s",
              first[i][0].get<std::string>().c_str(), rank, rank, there.c_str(),
              mine == there ? "as many with other values" : mine.c_str(), kAdvice);
  }
}

/// Whether the lock file of a folder has a text. Other hosts may see a new file a little later.
bool findsLock(const std::string &folder, const std::string &text) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (FolderLock::readRecord(folder) != text) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

} // namespace

void checkSameInputs(Session &session, const Flags &flags, const WeightFiles *weights,
                     const std::string &checkpoint) {
  if (!session.isOneOfMany())
    return;
  Json here = describeInputs(flags, weights, checkpoint);
  auto replace = Json::error_handler_t::replace; // of bytes in a path that are no UTF-8
  std::vector<std::string> texts = session.collect(here.dump(-1, ' ', false, replace));
  for (size_t rank = 1; rank < texts.size(); ++rank)
    compareFiles(Json::parse(texts[0]), Json::parse(texts[rank]), rank);
}

void checkSharedFolder(Session &session, const std::string &folder) {
  if (!session.isOneOfMany())
    return;
  std::string text = session.share(session.isFirst() ? FolderLock::readRecord(folder) : "");
  std::vector<std::string> found = session.collect(findsLock(folder, text) ? "yes" : "no");
  for (size_t rank = 1; rank < found.size(); ++rank)
    if (found[rank] != "yes")
      PSRT_FAIL(BadArgument,
                "--save \"%s\": rank %zu does not find the file \".lock\" there that rank 0 has "
                "made; every process saves its part: name a folder that all hosts share",
                folder.c_str(), rank);
}

} // namespace psrt
