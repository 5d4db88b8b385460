// The folder that weights are exported to: one writer at a time, and what killed ones left.
#ifndef PSRT_DATA_EXPORTFOLDER_H
#define PSRT_DATA_EXPORTFOLDER_H

#include <string>

namespace psrt {

inline constexpr const char *kWholeWeights = "model.safetensors";
inline constexpr const char *kWeightIndex = "model.safetensors.index.json";

/// Whether a name is one that an export gives a file: "model-00001-of-00002.safetensors".
bool isExportName(const std::string &name);

/// Holds a folder for one export, by flock of the folder itself, as far as its file system has
/// that. The kernel releases it when the process dies.
class ExportFolder {
public:
  /// Waits for another export for at most a minute, then goes on without holding the folder.
  explicit ExportFolder(const std::string &path);
  ~ExportFolder();
  ExportFolder(const ExportFolder &) = delete;
  /// Removes temporary files of exports that were killed. Does nothing where the folder is not
  /// held; a file that a process of another export still writes is locked and stays.
  void removeLeftovers() const;

private:
  std::string path;
  int descriptor = -1; ///< -1: not held
};

} // namespace psrt

#endif
