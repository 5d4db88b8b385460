// Algorithms that were chosen, on disk: one file for a kind of GPU and a version of a library.
#ifndef PSRT_DEVICE_CUDA_ALGORITHMFILE_H
#define PSRT_DEVICE_CUDA_ALGORITHMFILE_H

#include <map>
#include <string>

namespace psrt::cuda {

inline constexpr const char *kCublasLt = "cuBLASLt", *kCudnn = "cuDNN";

/// By what says all of a problem that its speed depends on.
using AlgorithmMap = std::map<std::string, std::string>;

/// What an algorithm is good for: libraries take them back in the same version only.
struct AlgorithmOrigin {
  std::string library; ///< "cuBLASLt"
  std::string gpu;     ///< the GPU's name
  int processors = 0;  ///< of its multiprocessors
  size_t version = 0;  ///< of the library: 130100
  bool operator==(const AlgorithmOrigin &) const = default;
};

/// $PSRT_ALGORITHM_CACHE (with the library's name behind it, but for cuBLASLt), or
/// algorithms-GPU-VERSION.json, algorithms-GPU-cudnn-VERSION.json in $XDG_CACHE_HOME/parashard or
/// ~/.cache/parashard; empty where the variable is empty or there is no home: nothing is kept.
std::string findAlgorithmFile(const AlgorithmOrigin &origin);

/// Processes that share a file hold this, one at a time, while they read, measure and write. It
/// does not wait for long: one that hangs holds nobody up.
class AlgorithmFileLock {
public:
  explicit AlgorithmFileLock(const std::string &path);
  ~AlgorithmFileLock();
  AlgorithmFileLock(const AlgorithmFileLock &) = delete;
  AlgorithmFileLock &operator=(const AlgorithmFileLock &) = delete;

private:
  int file = -1;
};

/// Why a file must not be replaced: it is a folder or a device, or somebody's file of another kind.
/// Empty: it may be, or is not there.
std::string findOwner(const std::string &path);

/// What a file has; nothing where there is none. `complaint` says why one that is there is of no
/// use: it was cut short, or is another GPU's or version's.
AlgorithmMap readAlgorithms(const std::string &path, const AlgorithmOrigin &origin,
                            std::string &complaint);

/// Replaces the file as a whole; says why it could not, or nothing.
std::string writeAlgorithms(const std::string &path, const AlgorithmOrigin &origin,
                            const AlgorithmMap &algorithms);

} // namespace psrt::cuda

#endif
