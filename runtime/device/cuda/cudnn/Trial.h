// Compares the results of a library and of our kernels on random numbers, before the library is
// trusted with a problem. Also measures both.
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
    /// Sizes and strides in elements; rows, along the last dim, are contiguous. No sizes: the
    /// tensor does not exist.
    std::vector<int64_t> sizes, strides;
    bool isResult = false;
    /// Tolerance of results: `absolute`, plus `ofRow` times the root mean square of the row (at
    /// least a tenth of that of the whole result), plus rounding errors.
    double absolute = 0, ofRow = 0;
    double roundings = 1; ///< number of rounding errors allowed
    /// Returns the element at an index of an input. If empty, elements are random, from -scale to
    /// scale.
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
  bool mayDiffer = false; ///< two runs of `theirs` may differ

  /// Returns the bytes of device memory for all tensors. Results are allocated twice.
  int64_t getBytes() const;
  /// Runs both implementations and waits. Returns how the results differ, or an empty string.
  std::string compare(const StreamRef &stream) const;
  /// Times that `time` reports for both implementations on the same inputs.
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
  /// Returns true if the library is trusted with the problem. `test` returns the reason why the
  /// library is not trusted, which is printed as a note, or an empty string. Each problem is tested
  /// once per GPU.
  bool isTrusted(int gpu, const std::string &problem, const std::function<std::string()> &test);

private:
  const char *library;
  std::mutex mutex;
  std::map<std::pair<int, std::string>, bool> known;
};

} // namespace psrt::cuda

#endif
