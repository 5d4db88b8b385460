// Results of a library against those of kernels of ours, on random numbers: before a library is
// trusted with a problem; and their times.
#ifndef PSRT_DEVICE_CUDA_CUDNN_TRIAL_H
#define PSRT_DEVICE_CUDA_CUDNN_TRIAL_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace psrt::cuda {

/// One problem: tensors of which some are computed from the others.
struct Trial {
  struct Tensor {
    Dtype dtype = Dtype::F32; ///< f32, bf16, f16 or bool
    /// Elements; rows, along the last dim, have no gaps. No sizes: there is no such tensor.
    std::vector<int64_t> sizes, strides;
    bool isResult = false;
    /// Results may differ by a rounding of theirs, by `absolute`, and by `ofRow` of the root mean
    /// square of their row (a tenth of that of the whole result).
    double absolute = 0, ofRow = 0;
    double roundings = 1; ///< by so many in place of one
    /// Of what is read: the element that lies there; else it is random, from -scale to scale.
    std::function<double(int64_t)> value;
    double scale = 1;

    static Tensor dense(Dtype dtype, std::vector<int64_t> sizes);
    /// From the first element to the last.
    int64_t getExtent() const;
    int64_t getBytes() const { return getExtent() * dtypeSize(dtype); }
  };
  using Run = std::function<void(void *const *)>;

  std::vector<Tensor> tensors;
  Run prepare;            ///< computes what is read and is no result; may be empty
  Run theirs, ours;       ///< enqueue it; given the tensors' addresses, null where there is none
  bool mayDiffer = false; ///< two runs of theirs

  /// Of device memory; results are there twice.
  int64_t getBytes() const;
  /// Runs both and waits. Empty, or how they differ.
  std::string compare(const StreamRef &stream) const;
  /// What `time` says of each on the same numbers.
  struct Times {
    double theirs = 0, ours = 0;
  };
  Times measure(const StreamRef &stream,
                const std::function<double(const std::function<void()> &)> &time) const;
};

/// How far two results may be apart that were rounded to that type, as a part of them.
double getRounding(Dtype dtype);

/// What was found out about problems, by GPU; all ranks of a process share it.
class TrialResults {
public:
  /// `library`: as notes call it.
  explicit TrialResults(const char *library) : library(library) {}
  /// `test` says nothing, or why the problem is not the library's; it is asked once for each GPU
  /// and problem, and what it says is printed as a note.
  bool isTrusted(int gpu, const std::string &problem, const std::function<std::string()> &test);

private:
  const char *library;
  std::mutex mutex;
  std::map<std::pair<int, std::string>, bool> known;
};

} // namespace psrt::cuda

#endif
