// Manages the folder of an export: one writer at a time, and removal of killed writers' files.
#ifndef PSRT_DATA_EXPORTFOLDER_H
#define PSRT_DATA_EXPORTFOLDER_H

#include <string>

namespace psrt {

inline constexpr const char *kWholeWeights = "model.safetensors";
inline constexpr const char *kWeightIndex = "model.safetensors.index.json";

/// Returns whether an export uses a name: "model-00001-of-00002.safetensors".
bool isExportName(const std::string &name);

/// Holds a folder for one export by flock of the folder, if its file system supports flock. The
/// kernel releases the lock when the process dies.
class ExportFolder {
public:
  /// Waits up to a minute for another export, then continues without the lock.
  explicit ExportFolder(const std::string &path);
  ~ExportFolder();
  ExportFolder(const ExportFolder &) = delete;
  /// Removes temporary files of killed exports. Does nothing without the lock. Files that a living
  /// process of another export writes are locked and stay.
  void removeLeftovers() const;

private:
  std::string path;
  int descriptor = -1; ///< -1: no lock
};

} // namespace psrt

#endif
