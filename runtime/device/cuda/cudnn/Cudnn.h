// cuDNN 9, loaded when a program for GPUs has convolutions, or attention in 16 bits: $PSRT_CUDNN,
// or libcudnn.so.9.
#ifndef PSRT_DEVICE_CUDA_CUDNN_CUDNN_H
#define PSRT_DEVICE_CUDA_CUDNN_CUDNN_H

#include "runtime/device/cuda/Driver.h"
#include "runtime/device/cuda/cudnn/CudnnApi.h"
#include <exception>
#include <memory>
#include <string>

namespace psrt::cuda {

/// What cuDNN did not do, in its own words. Who asks for a plan falls back to kernels of ours.
class CudnnFailure : public std::exception {
public:
  explicit CudnnFailure(std::string text) : text(std::move(text)) {}
  const char *what() const noexcept override { return text.c_str(); }

private:
  std::string text;
};

struct Cudnn {
#define PSRT_FIELD(name, symbol, result, arguments) result(*name) arguments = nullptr;
  PSRT_CUDNN_FUNCTIONS(PSRT_FIELD)
#undef PSRT_FIELD
  size_t version = 0; ///< 91900 for 9.19.0

  /// Throws a CudnnFailure unless a call went well; `what` it did: "to describe a tensor".
  void check(cudnnStatus_t status, const char *what) const;
};

using CudnnRef = std::shared_ptr<const Cudnn>;

/// Null where PSRT_CUDNN=off, or where none is found and none was asked for; a note then says so
/// (on the fake driver none is looked for, and nothing is said). Fails, and says what to do,
/// where PSRT_CUDNN names what is no cuDNN 9. It stays loaded for good.
CudnnRef loadCudnn(const Driver &driver);

/// "9.19.0"
std::string cudnnVersionText(size_t version);

} // namespace psrt::cuda

#endif
