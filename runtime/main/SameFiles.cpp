// Whether the processes of a job, which may be on several hosts, read and write the same files.
#include "runtime/core/CheckpointFolder.h"
#include "runtime/core/ShardReader.h"
#include "runtime/data/FolderLock.h"
#include "runtime/data/MappedFile.h"
#include "runtime/main/Parts.h"
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

namespace psrt {
namespace {

using Json = nlohmann::json;

/// Returns the size of a file and a sum of parts of it: its ends, and 64 blocks in between. Reading
/// all of the data would take minutes, and files of two versions differ in most places.
Json describeFile(const std::string &path) {
  constexpr size_t kEnd = 65536, kBlock = 4096, kBlocks = 64;
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
    for (size_t i = 0; file.size() > 2 * kEnd && i < kBlocks; ++i)
      add(file.size() / kBlocks * i, kBlock);
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
  Json result = Json::array();
  for (const std::string &path : paths)
    result.push_back({path, describeFile(path)});
  return result;
}

/// "1416 bytes", "no such file"
std::string describeSize(const Json &file) {
  return file.is_null() ? "no file that it can read"
                        : std::to_string(file.at("bytes").get<uint64_t>()) + " bytes";
}

void compareFiles(const Json &first, const Json &other, size_t rank) {
  const char *advice = "all processes must read the same files: copy them to every host, or name "
                       "a folder that all share";
  for (size_t i = 0; i < std::min(first.size(), other.size()); ++i) {
    if (first[i] == other[i])
      continue;
    std::string path = first[i][0], its = other[i][0];
    const Json &mine = first[i][1], &there = other[i][1];
    if (path != its)
      PSRT_FAIL(BadInput, "rank %zu reads \"%s\" where rank 0 reads \"%s\"; %s", rank, its.c_str(),
                path.c_str(), advice);
    bool sameSize = describeSize(mine) == describeSize(there);
    PSRT_FAIL(BadInput, "\"%s\" is not the same for rank %zu and rank 0: %s has %s, rank 0 %s; %s",
              path.c_str(), rank, format("rank %zu", rank).c_str(), describeSize(there).c_str(),
              sameSize ? "as many with other values" : describeSize(mine).c_str(), advice);
  }
  if (first.size() != other.size())
    PSRT_FAIL(BadInput, "rank %zu reads %zu files and rank 0 reads %zu; %s", rank, other.size(),
              first.size(), advice);
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
  Json here = describeInputs(flags, weights, checkpoint);
  auto replace = Json::error_handler_t::replace; // of bytes in a path that are no UTF-8
  std::vector<std::string> texts = session.collect(here.dump(-1, ' ', false, replace));
  for (size_t rank = 1; rank < texts.size(); ++rank)
    compareFiles(Json::parse(texts[0]), Json::parse(texts[rank]), rank);
}

void checkSharedFolder(Session &session, const std::string &folder) {
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
