// Chooses the fastest algorithm for a problem. Each problem is measured once, and the choice is
// stored. For matmuls, the candidates are the algorithms that cuBLASLt's heuristics return. For
// operations that cuDNN supports, the candidates are cuDNN and the fallback kernels.
#ifndef PSRT_DEVICE_CUDA_ALGORITHMS_H
#define PSRT_DEVICE_CUDA_ALGORITHMS_H

#include "runtime/device/cuda/AlgorithmFile.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <mutex>
#include <optional>

namespace psrt::cuda {

/// Identifies the library of the candidates, and names the candidates in messages.
struct AlgorithmKind {
  const char *library;  ///< "cuBLASLt" or "cuDNN"
  const char *measured; ///< the candidates, as a plural noun phrase
  const char *taken;    ///< the candidate that is used without a measurement
};
inline constexpr AlgorithmKind kMatmulAlgorithms{kCublasLt, "matmul algorithms",
                                                 "cuBLASLt's first suggestion"};
inline constexpr AlgorithmKind kCudnnAlgorithms{kCudnn, "cuDNN and the fallback kernels", "cuDNN"};

/// Holds the choices for one GPU model and one library. The ranks of a process share this object;
/// processes share the algorithm file.
class Algorithms {
public:
  Algorithms(const Gpu &gpu, const AlgorithmKind &kind);

  /// Returns true if candidates are measured. By default, this is the case on a real driver only.
  /// PSRT_ALGORITHM_TIMING=0 or 1 overrides the default.
  bool areMeasured() const { return measures; }
  /// Reads the saved choices for this library version. Choices that this process already made are
  /// kept.
  void open(size_t version);

  /// An algorithm as text.
  using Algorithm = std::string;
  /// Returns the algorithm for a problem, or nullopt if none could be measured. Returns the stored
  /// algorithm if `isUsable` accepts it; otherwise calls `measure`. Only one rank measures at a
  /// time, because concurrent measurements would disturb each other. After kMaxSeconds in total,
  /// no further problem is measured.
  std::optional<Algorithm> choose(const std::string &problem,
                                  const std::function<bool(const Algorithm &)> &isUsable,
                                  const std::function<std::optional<Algorithm>()> &measure);

private:
  std::optional<Algorithm> find(const std::string &problem,
                                const std::function<bool(const Algorithm &)> &isUsable) const;
  void read();
  void write();
  std::optional<Algorithm> measureInTime(const std::string &problem,
                                         const std::function<std::optional<Algorithm>()> &measure);

  static constexpr double kMaxSeconds = 20;

  const AlgorithmKind &kind;
  bool measures;
  std::mutex mutex;
  AlgorithmOrigin origin;
  std::string path;
  AlgorithmMap known;
  double seconds = 0; ///< total time spent on measuring
  bool hasReportedReading = false, hasReportedWriting = false, hasReportedTime = false;
};

} // namespace psrt::cuda

#endif
