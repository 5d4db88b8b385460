// Computes a convolution or one of its gradients.
#ifndef PSRT_TESTING_CUDNN_CONVOLUTION_H
#define PSRT_TESTING_CUDNN_CONVOLUTION_H

#include "runtime/testing/cudnn/Execution.h"
#include <array>

namespace psrt::fake {

class Convolution : public Execution {
public:
  enum { X, W, Y };
  explicit Convolution(const Descriptor &operation);
  static bool isOne(cudnnBackendDescriptorType_t type);
  std::vector<Tensor *> tensors() override { return {&all[X], &all[W], &all[Y]}; }
  void compute() const override;

private:
  void takeWindows(const Descriptor &windows);
  void checkShapes() const;
  int64_t groups() const { return all[X].sizes[1] / all[W].sizes[1]; }

  /// One tap of one window: the indices of its elements of x, w and y within one channel.
  struct Triple {
    int32_t x, w, y;
  };
  std::vector<Triple> connect() const;

  std::vector<Tensor>
      all; ///< with three spatial dims; leading spatial dims that a descriptor lacks have size 1
  int result = Y;
  float alpha = 1, beta = 0;
  std::array<int64_t, 3> steps{1, 1, 1}, dilations{1, 1, 1}, low{}, high{};
};

} // namespace psrt::fake

#endif
