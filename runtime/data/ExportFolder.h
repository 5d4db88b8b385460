// Locks the folder of an export, and removes temporary files of killed exports.
#ifndef PSRT_DATA_EXPORTFOLDER_H
#define PSRT_DATA_EXPORTFOLDER_H

#include <string>

namespace psrt {

inline constexpr const char *kWholeWeights = "model.safetensors";
inline constexpr const char *kWeightIndex = "model.safetensors.index.json";

/// Returns whether a file name is one that exports use, such as "model-00001-of-00002.safetensors".
bool isExportName(const std::string &name);

/// Locks a folder with flock during one export, if the file system supports flock. The kernel
/// releases the lock when the process dies.
class ExportFolder {
public:
  /// Waits up to a minute for another export to end, and then continues without the lock.
  explicit ExportFolder(const std::string &path);
  ~ExportFolder();
  ExportFolder(const ExportFolder &) = delete;
  /// Removes temporary files of killed exports. Does nothing without the lock. Keeps locked files,
  /// since a running process is still writing them.
  void removeLeftovers() const;

private:
  std::string path;
  int descriptor = -1; ///< -1: no lock
};

} // namespace psrt

#endif
