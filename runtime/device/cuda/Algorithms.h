// Which of several ways is taken to compute something: the fastest, measured once for each problem
// and remembered. For matmuls it is an algorithm of cuBLASLt, of those that its heuristics offer;
// for what cuDNN and the runtime's kernels compute alike, one of the two.
#ifndef PSRT_DEVICE_CUDA_ALGORITHMS_H
#define PSRT_DEVICE_CUDA_ALGORITHMS_H

#include "runtime/device/cuda/AlgorithmFile.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <mutex>
#include <optional>

namespace psrt::cuda {

/// Whose choices they are, and how messages speak of them.
struct AlgorithmKind {
  const char *library;  ///< "cuBLASLt"
  const char *measured; ///< what is
  const char *taken;    ///< without a measurement
};
inline constexpr AlgorithmKind kOfMatmuls{kCublasLt, "the algorithms of matmuls",
                                           "the first that cuBLASLt offers"};
inline constexpr AlgorithmKind kOfCudnn{kCudnn, "cuDNN beside the runtime's kernels", "cuDNN"};

/// The choices of one kind of GPU; the ranks of a process share it, and processes its file.
class Algorithms {
public:
  Algorithms(const Gpu &gpu, const AlgorithmKind &kind);

  /// Whether anything is measured: on a real driver unless PSRT_ALGORITHM_TIMING=0, on the
  /// fake where it is 1.
  bool areMeasured() const { return measures; }
  /// Reads what there is for this version of the library; what was read before stays.
  void open(size_t version);

  /// An algorithm as text.
  using Algorithm = std::string;
  /// That of a problem; nothing where none could be measured. One that is remembered is
  /// taken where `isUsable`; else `measure` finds one. One call at a time: measurements of several
  /// ranks would disturb each other. Once measuring has taken kMostSeconds in all, no more is.
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

  static constexpr double kMostSeconds = 20;

  const AlgorithmKind &kind;
  bool measures;
  std::mutex mutex;
  AlgorithmOrigin origin;
  std::string path;
  AlgorithmMap known;
  double seconds = 0; ///< that measuring has taken
  bool hasToldOfReading = false, hasToldOfWriting = false, hasToldOfTime = false;
};

} // namespace psrt::cuda

#endif
