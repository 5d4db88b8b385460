// Checks that the processes of a job, possibly on several hosts, read and write the same files.
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

/// Returns the size of a file and hashes of parts of it: both ends, and `blocks` blocks in between.
/// Hashing the whole file could take minutes. Different versions of a file usually differ in most
/// blocks.
Json describeFile(const std::string &path, size_t blocks) {
  constexpr size_t kEnd = 65536, kBlock = 4096;
  try {
    MappedFile file(path);
    std::string blockHashes;
    auto add = [&](size_t at, size_t bytes) {
      blockHashes += hashOfBytes(file.data() + at, std::min(bytes, file.size() - at));
    };
    if (file.size() > 0)
      add(0, kEnd);
    if (file.size() > kEnd)
      add(file.size() - kEnd, kEnd);
    for (size_t i = 0; file.size() > 2 * kEnd && i < blocks; ++i)
      add(file.size() / blocks * i, kBlock);
    return {{"bytes", file.size()}, {"sum", hashOfBytes(blockHashes.data(), blockHashes.size())}};
  } catch (const Error &) {
    return {}; // the error is reported when the run opens the file
  }
}

/// Returns the files that a run reads: [[path, description], ...].
Json describeInputs(const Flags &flags, const WeightFiles *weights, const std::string &checkpoint) {
  std::vector<std::string> paths = expandPatterns(flags.data.files);
  std::vector<std::string> evalPaths = expandPatterns(flags.evalData);
  paths.insert(paths.end(), evalPaths.begin(), evalPaths.end());
  if (weights)
    for (const SafetensorsFile &file : weights->getFiles())
      paths.push_back(file.path());
  if (!checkpoint.empty()) // the index contains a hash of each file of the checkpoint
    paths.push_back(checkpoint + "/" + kCheckpointIndex);
  size_t blocks = std::min<size_t>(64, 1024 / std::max<size_t>(1, paths.size()));
  Json result = Json::array();
  for (const std::string &path : paths)
    result.push_back({path, describeFile(path, blocks)});
  return result;
}

/// Returns "1416 bytes", or "no readable file".
std::string describeSize(const Json &file) {
  return file.is_null() ? "no readable file"
                        : std::to_string(file.at("bytes").get<uint64_t>()) + " bytes";
}

const char *const kAdvice =
    "all processes must read the same files; copy them to every host, or use a folder that all "
    "hosts share";

/// Fails if the lists of paths differ. Example: a pattern matches different files on two hosts.
void compareNames(const Json &first, const Json &other, size_t rank) {
  for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    auto nameAt = [i](const Json &files) {
      return i < files.size() ? "\"" + files[i][0].get<std::string>() + "\"" : "no further file";
    };
    if (nameAt(first) != nameAt(other))
      PSRT_FAIL(BadInput, "rank %zu reads %s, but rank 0 reads %s; %s", rank, nameAt(other).c_str(),
                nameAt(first).c_str(), kAdvice);
  }
}

void compareFiles(const Json &first, const Json &other, size_t rank) {
  compareNames(first, other, rank);
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] == other[i])
      continue;
    std::string mine = describeSize(first[i][1]), there = describeSize(other[i][1]);
    PSRT_FAIL(BadInput,
              "\"%s\" differs between rank %zu and rank 0: rank %zu has %s, rank 0 has %s; %s",
              first[i][0].get<std::string>().c_str(), rank, rank, there.c_str(),
              mine == there ? "the same number of bytes with other values" : mine.c_str(), kAdvice);
  }
}

/// Returns whether the lock file of a folder contains `text`. Waits up to 5 s: on a shared file
/// system, other hosts may see a new file later.
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
  auto replace = Json::error_handler_t::replace; // a path may contain bytes that are not UTF-8
  std::vector<std::string> texts = session.collect(here.dump(-1, ' ', false, replace));
  for (size_t rank = 1; rank < texts.size(); ++rank)
    compareFiles(Json::parse(texts[0]), Json::parse(texts[rank]), rank);
}

void checkSharedFolder(Session &session, const std::string &folder) {
  if (!session.isOneOfMany())
    return;
  std::string text = session.broadcast(session.isFirst() ? FolderLock::readRecord(folder) : "");
  std::vector<std::string> found = session.collect(findsLock(folder, text) ? "yes" : "no");
  for (size_t rank = 1; rank < found.size(); ++rank)
    if (found[rank] != "yes")
      PSRT_FAIL(BadArgument,
                "--save \"%s\": rank %zu does not see the file \".lock\" of rank 0 in this folder; "
                "every process saves its part, so give a folder that all hosts share",
                folder.c_str(), rank);
}

} // namespace psrt
