// Stores measured algorithm choices on disk: one file per GPU model and library version.
#ifndef PSRT_DEVICE_CUDA_ALGORITHMFILE_H
#define PSRT_DEVICE_CUDA_ALGORITHMFILE_H

#include <map>
#include <string>

namespace psrt::cuda {

inline constexpr const char *kCublasLt = "cuBLASLt", *kCudnn = "cuDNN";

/// Maps a problem description to an algorithm. The description contains all properties that affect
/// the problem's speed.
using AlgorithmMap = std::map<std::string, std::string>;

/// Identifies the GPU and library version for which algorithms are valid.
struct AlgorithmOrigin {
  std::string library; ///< "cuBLASLt" or "cuDNN"
  std::string gpu;     ///< the GPU's name
  int processors = 0;  ///< number of multiprocessors
  size_t version = 0;  ///< library version, e.g. 130100
  bool operator==(const AlgorithmOrigin &) const = default;
};

/// Returns the path of the algorithm cache, or an empty string if choices are not saved.
/// - If PSRT_ALGORITHM_CACHE is set, returns its value, to which ".cudnn" is appended for cuDNN. An
///   empty value disables the cache.
/// - Otherwise, returns algorithms-GPU-VERSION.json (cuBLASLt) or algorithms-GPU-cudnn-VERSION.json
///   in $XDG_CACHE_HOME/parashard or ~/.cache/parashard. Without a home folder, the cache is
///   disabled.
std::string findAlgorithmFile(const AlgorithmOrigin &origin);

/// Locks an algorithm file against other processes while this process reads, measures and writes.
/// After 10 seconds, the constructor continues without the lock, so that a hung process does not
/// block others.
class AlgorithmFileLock {
public:
  explicit AlgorithmFileLock(const std::string &path);
  ~AlgorithmFileLock();
  AlgorithmFileLock(const AlgorithmFileLock &) = delete;
  AlgorithmFileLock &operator=(const AlgorithmFileLock &) = delete;

private:
  int file = -1;
};

/// Returns the reason why a file must not be overwritten: it is a folder, a device or not an
/// algorithm file. Returns an empty string if the file may be overwritten or does not exist.
std::string findOwner(const std::string &path);

/// Reads the algorithms in a file. Returns an empty map if the file does not exist. If the file is
/// truncated, or belongs to another GPU or library version, also returns an empty map and sets
/// `complaint` to the reason.
AlgorithmMap readAlgorithms(const std::string &path, const AlgorithmOrigin &origin,
                            std::string &complaint);

/// Replaces the file atomically. Returns the reason for a failure, or an empty string on success.
std::string writeAlgorithms(const std::string &path, const AlgorithmOrigin &origin,
                            const AlgorithmMap &algorithms);

} // namespace psrt::cuda

#endif
