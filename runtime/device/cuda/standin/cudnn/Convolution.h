// A convolution as an operation descriptor says it, and its value.
#ifndef PSRT_DEVICE_CUDA_STANDIN_CUDNN_CONVOLUTION_H
#define PSRT_DEVICE_CUDA_STANDIN_CUDNN_CONVOLUTION_H

#include "runtime/device/cuda/standin/Standin.h"
#include "runtime/device/cuda/standin/cudnn/Descriptors.h"
#include <array>

namespace psrt::standin {

struct Convolution {
  enum { X, W, Y };
  struct Tensor {
    int64_t id = 0, alignment = 1;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    std::array<int64_t, 5> sizes{}, strides{}; ///< three dims of places, the first ones of size 1
    char *data = nullptr;

    int64_t bytes() const;
  };
  std::array<Tensor, 3> tensors;
  int result = Y;
  float alpha = 1, beta = 0;
  std::array<int64_t, 3> steps{1, 1, 1}, dilations{1, 1, 1}, low{};
  // Of an execution:
  bool roundsToTf32 = false, isWrong = false;
  char *workspace = nullptr;
  int64_t workspaceBytes = 0;

  /// Throws a Refusal where the tensors are no convolution.
  static Convolution parse(const Descriptor &operation);
  int64_t groups() const { return tensors[X].sizes[1] / tensors[W].sizes[1]; }
  std::vector<PsrtStandinAccess> accesses() const;
  void compute() const;
};

} // namespace psrt::standin

#endif
