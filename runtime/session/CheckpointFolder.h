// Manages the folder of --save: lists its checkpoints in order of saving and removes old ones.
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
/// Prefix of folders that are being written or removed. A unique name follows the prefix.
inline constexpr const char *kPartialPrefix = ".partial.";

/// Parses the name of a checkpoint: "step-000100-2", the second checkpoint of step 100, gives {100,
/// 2}. Returns nullopt for other names.
std::optional<std::pair<int64_t, int64_t>> parseCheckpointName(const std::string &name);

/// Returns the folders in `folder` that have the name and the index of a checkpoint, newest first.
/// They are sorted by the time of the index file, then by step. Example: after a run of 8 steps and
/// a later run of 4, "step-000004" comes before "step-000008".
std::vector<std::filesystem::path> listCheckpoints(const std::filesystem::path &folder);

/// Removes the complete checkpoints of a run, except for the `keep` newest checkpoints and the
/// checkpoints in `kept`. With `keep` = 0, removes nothing. Checkpoints of other runs and
/// unreadable checkpoints are neither removed nor counted.
void removeOlderCheckpoints(const std::filesystem::path &folder, int64_t keep,
                            const std::string &run, const std::vector<std::string> &kept);

/// Returns the newest complete checkpoint, or "" if the folder has no checkpoints. If all are
/// incomplete, fails with the error of the newest one.
std::string findNewestCheckpoint(const std::string &folder);

} // namespace psrt

#endif
