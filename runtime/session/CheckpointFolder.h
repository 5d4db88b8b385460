// The folder of --save: which checkpoints it has, in which order they were saved, which ones go.
#ifndef PSRT_SESSION_CHECKPOINTFOLDER_H
#define PSRT_SESSION_CHECKPOINTFOLDER_H

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace psrt {

inline constexpr const char *kCheckpointPrefix = "step-";
inline constexpr const char *kCheckpointIndex = "index.json";
/// Begins the names of folders that are being written or removed; a unique name follows.
inline constexpr const char *kPartialPrefix = ".partial.";

/// Returns the step of "step-000100-2" and the number behind it; nothing for other names.
std::optional<std::pair<int64_t, int64_t>> parseCheckpointName(const std::string &name);

/// Returns the folders in `folder` that have the name and the index of a checkpoint, those that
/// were saved last first. Example: after a run of 8 steps and then one of 4, "step-000004" stands
/// before "step-000008". The time is that of the index; equal times are ordered by step.
std::vector<std::filesystem::path> listCheckpoints(const std::filesystem::path &folder);

/// Removes all whole checkpoints of a run but the `keep` ones that were saved last and those in
/// `kept`. Those of other runs and what cannot be read as a checkpoint stay and are not counted. 0
/// keeps all.
void removeOlderCheckpoints(const std::filesystem::path &folder, int64_t keep,
                            const std::string &run, const std::vector<std::string> &kept);

/// Returns the whole checkpoint that was saved last; empty if there is none. Fails as reading the
/// newest one does if there are some and none is whole.
std::string findNewestCheckpoint(const std::string &folder);

} // namespace psrt

#endif
