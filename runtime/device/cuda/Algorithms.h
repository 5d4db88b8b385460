// Which algorithm of cuBLASLt multiplies matrices: the fastest of those that its heuristics offer,
// measured once for each kind of product and remembered.
#ifndef PSRT_DEVICE_CUDA_ALGORITHMS_H
#define PSRT_DEVICE_CUDA_ALGORITHMS_H

#include "runtime/device/cuda/AlgorithmFile.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <mutex>
#include <optional>

namespace psrt::cuda {

/// The choices of one kind of GPU; the ranks of a process share it, and processes its file.
class Algorithms {
public:
  explicit Algorithms(const Gpu &gpu);

  /// Whether products are measured: on a real driver unless PSRT_ALGORITHM_TIMING=0, on the
  /// stand-in where it is 1.
  bool areMeasured() const { return measures; }
  /// Reads what there is for this version of cuBLASLt; what was read before stays.
  void open(size_t version);

  using Algorithm = cublasLtMatmulAlgo_t;
  /// The algorithm of a product; nothing where none could be measured. One that is remembered is
  /// taken where `isUsable`; else `measure` finds one. One call at a time: measurements of several
  /// ranks would disturb each other. Once measuring has taken kMostSeconds in all, no more is.
  std::optional<Algorithm> choose(const std::string &product,
                                  const std::function<bool(const Algorithm &)> &isUsable,
                                  const std::function<std::optional<Algorithm>()> &measure);

private:
  std::optional<Algorithm> find(const std::string &product,
                                const std::function<bool(const Algorithm &)> &isUsable) const;
  void read();
  void write();
  std::optional<Algorithm> measureInTime(const std::string &product,
                                         const std::function<std::optional<Algorithm>()> &measure);

  static constexpr double kMostSeconds = 20;

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
