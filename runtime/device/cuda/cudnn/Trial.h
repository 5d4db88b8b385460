// Compares the results of a library with those of the fallback kernels on random numbers, before
// the library is used for a problem. Also measures the times of the library and of the kernels.
#ifndef PSRT_DEVICE_CUDA_CUDNN_TRIAL_H
#define PSRT_DEVICE_CUDA_CUDNN_TRIAL_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace psrt::cuda {

/// A problem: input tensors and the results computed from them.
struct Trial {
  struct Tensor {
    Dtype dtype = Dtype::F32; ///< f32, bf16, f16 or bool
    /// Sizes and strides in elements. Rows, along the last dim, are contiguous. If there are no
    /// sizes, the tensor does not exist.
    std::vector<int64_t> sizes, strides;
    bool isResult = false;
    /// The tolerance of a result element is a sum: `absolute`, `ofRow` times the root mean square
    /// of its row, and `roundings` rounding errors. The root mean square of a row counts as at
    /// least a tenth of the root mean square of the whole result.
    double absolute = 0, ofRow = 0;
    double roundings = 1;
    /// Returns the element at an index of an input. Without this function, the elements are
    /// random numbers from -scale to scale.
    std::function<double(int64_t)> value;
    double scale = 1;

    static Tensor dense(Dtype dtype, std::vector<int64_t> sizes);
    /// Returns the number of elements from the first to the last one.
    int64_t getExtent() const;
    int64_t getBytes() const { return getExtent() * dtypeSize(dtype); }
  };
  using Run = std::function<void(void *const *)>;

  std::vector<Tensor> tensors;
  Run prepare;            ///< computes inputs that depend on other inputs; may be empty
  Run theirs, ours;       ///< enqueue the problem; the arguments are the addresses of `tensors`
  bool mayDiffer = false; ///< whether two runs of `theirs` may give different results

  /// Returns the bytes of device memory for all tensors. Results are allocated twice.
  int64_t getBytes() const;
  /// Runs both implementations and waits. Returns how the results differ, or an empty string if
  /// they match.
  std::string compare(const StreamRef &stream) const;
  /// The times of both implementations, as returned by the argument `time` of measure().
  struct Times {
    double theirs = 0, ours = 0;
  };
  Times measure(const StreamRef &stream,
                const std::function<double(const std::function<void()> &)> &time) const;
};

/// Returns the relative error of rounding to this dtype.
double getRounding(Dtype dtype);

/// Holds the results of trials, by GPU and problem. All ranks of a process share them.
class TrialResults {
public:
  /// `library` is the library's name in notes.
  explicit TrialResults(const char *library) : library(library) {}
  /// Returns true if the library may be used for the problem. On the first call per GPU and
  /// problem, calls `test`. If `test` returns a reason against the library, prints this reason as a
  /// note. An empty string means that the library may be used.
  bool isTrusted(int gpu, const std::string &problem, const std::function<std::string()> &test);

private:
  const char *library;
  std::mutex mutex;
  std::map<std::pair<int, std::string>, bool> known;
};

} // namespace psrt::cuda

#endif
