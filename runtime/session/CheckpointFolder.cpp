// Lists and removes checkpoints.
#include "runtime/session/CheckpointFolder.h"
#include "runtime/core/NewFile.h"
#include "runtime/session/Checkpoint.h"
#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>
#include <tuple>

namespace psrt {

namespace fs = std::filesystem;

std::optional<std::pair<int64_t, int64_t>> parseCheckpointName(const std::string &name) {
  if (!name.starts_with(kCheckpointPrefix))
    return std::nullopt;
  const char *end = name.data() + name.size();
  int64_t step = 0, again = 1;
  auto read = std::from_chars(name.data() + std::strlen(kCheckpointPrefix), end, step);
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-')
    read = std::from_chars(read.ptr + 1, end, again);
  if (read.ec != std::errc() || read.ptr != end || step < 0)
    return std::nullopt;
  return std::pair<int64_t, int64_t>(step, again);
}

std::vector<fs::path> listCheckpoints(const fs::path &folder) {
  using Number = std::pair<int64_t, int64_t>;
  std::vector<std::tuple<fs::file_time_type, Number, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    auto number = parseCheckpointName(it->path().filename().string());
    std::error_code none;
    if (!number || it->is_symlink(none) || !it->is_directory(none))
      continue;
    fs::file_time_type time = fs::last_write_time(it->path() / kCheckpointIndex, none);
    if (!none)
      found.emplace_back(time, *number, it->path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> result;
  for (auto &[time, number, path] : found)
    result.push_back(std::move(path));
  return result;
}

/// Opens a checkpoint, which checks its index and file sizes. If the checkpoint is incomplete, sets
/// `why` to the error and returns nullopt.
static std::optional<Checkpoint> readWhole(const fs::path &path, std::exception_ptr &why) {
  try {
    return std::make_optional<Checkpoint>(path.string());
  } catch (const std::exception &) {
    why = std::current_exception();
    return std::nullopt;
  }
}

/// Renames a checkpoint to the name of an unfinished one, then removes it. If the process is killed
/// in between, the next save removes the remaining files.
static void removeCheckpoint(const fs::path &path) {
  fs::path aside = path.parent_path() / (kPartialPrefix + drawUniqueName());
  fs::rename(path, aside);
  fs::remove_all(aside);
}

void removeOlderCheckpoints(const fs::path &folder, int64_t keep, const std::string &run,
                            const std::vector<std::string> &kept) {
  if (keep <= 0)
    return;
  auto isKept = [&](const fs::path &path) {
    std::error_code error;
    return std::any_of(kept.begin(), kept.end(), [&](const std::string &other) {
      return !other.empty() && fs::equivalent(path, other, error);
    });
  };
  int64_t newer = 0;
  std::exception_ptr ignored;
  for (const fs::path &path : listCheckpoints(folder))
    if (std::optional<Checkpoint> whole = readWhole(path, ignored);
        whole && whole->getPosition().run == run && ++newer > keep && !isKept(path))
      removeCheckpoint(path);
}

std::string findNewestCheckpoint(const std::string &folder) {
  std::exception_ptr first;
  for (const fs::path &path : listCheckpoints(folder)) {
    std::exception_ptr why;
    if (readWhole(path, why))
      return path.string();
    first = first ? first : why;
  }
  if (first)
    std::rethrow_exception(first);
  return "";
}

} // namespace psrt
