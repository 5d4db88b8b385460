// Loads cuDNN 9 from $PSRT_CUDNN or libcudnn.so.9 when a GPU program has convolutions or 16-bit
// attention.
#ifndef PSRT_DEVICE_CUDA_CUDNN_CUDNN_H
#define PSRT_DEVICE_CUDA_CUDNN_CUDNN_H

#include "runtime/device/cuda/Driver.h"
#include "runtime/device/cuda/cudnn/CudnnApi.h"
#include <exception>
#include <memory>
#include <string>

namespace psrt::cuda {

/// Reports why a call of cuDNN failed, in cuDNN's words. A caller that requested a plan then uses
/// the fallback kernels.
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
  size_t version = 0; ///< e.g. 91900 for 9.19.0

  /// Throws a CudnnFailure unless the call succeeded. `action` completes "cuDNN failed ...", e.g.
  /// "to describe a tensor".
  void check(cudnnStatus_t status, const char *action) const;
};

using CudnnRef = std::shared_ptr<const Cudnn>;

/// Loads cuDNN, which is never unloaded.
/// - With PSRT_CUDNN=off, returns null.
/// - If PSRT_CUDNN is a path, but not the path of cuDNN 9, fails. The error says what to do.
/// - If PSRT_CUDNN is not set and cuDNN is not found, prints a note and returns null. With the fake
///   driver, does not search for cuDNN, and returns null without a note.
CudnnRef loadCudnn(const Driver &driver);

/// Returns the version as text, e.g. "9.19.0".
std::string cudnnVersionText(size_t version);

} // namespace psrt::cuda

#endif
