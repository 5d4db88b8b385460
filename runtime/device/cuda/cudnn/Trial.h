// Results of a library against those of kernels of ours, on random numbers: before a library is
// trusted with a problem.
#ifndef PSRT_DEVICE_CUDA_CUDNN_TRIAL_H
#define PSRT_DEVICE_CUDA_CUDNN_TRIAL_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace psrt::cuda {

/// One problem: tensors of which one is computed from the others.
struct Trial {
  struct Tensor {
    Dtype dtype; ///< f32, bf16 or f16
    int64_t count;
  };
  std::vector<Tensor> tensors;
  int result = 0;
  double terms = 1;          ///< how many products a sum of the result has, at most
  bool roundsInputs = false; ///< to TF32
  /// Enqueue it; the tensors' addresses.
  std::function<void(void *const *)> theirs, ours;

  /// Of device memory; the result is there twice.
  int64_t getBytes() const;
  /// Runs both and waits. Empty, or how they differ. Elements may differ by a rounding of the
  /// result, and by 1e-4 of what a sum of that many such products is like.
  std::string compare(const StreamRef &stream) const;
};

/// What was found out about problems, by GPU; all ranks of a process share it.
class Verdicts {
public:
  /// `test` says nothing, or why the problem is not the library's; it is asked once for each GPU
  /// and problem, and what it says is printed as a note.
  bool isTrusted(int gpu, const std::string &problem, const std::function<std::string()> &test);

private:
  std::mutex mutex;
  std::map<std::pair<int, std::string>, bool> known;
};

} // namespace psrt::cuda

#endif
