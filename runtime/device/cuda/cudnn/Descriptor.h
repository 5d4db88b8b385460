// Wraps a descriptor of cuDNN's graph API in an object.
#ifndef PSRT_DEVICE_CUDA_CUDNN_DESCRIPTOR_H
#define PSRT_DEVICE_CUDA_CUDNN_DESCRIPTOR_H

#include "runtime/device/cuda/cudnn/Cudnn.h"
#include <utility>
#include <vector>

namespace psrt::cuda {

/// Returns the strides of a dense tensor, in elements.
std::vector<int64_t> getDenseStrides(const std::vector<int64_t> &sizes);

/// A descriptor whose attributes are set before it is finalized. Each call throws a CudnnFailure if
/// cuDNN reports an error. The library must outlive the descriptor.
class Descriptor {
public:
  Descriptor(const Cudnn &cudnn, cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor &&other) noexcept
      : cudnn(other.cudnn), handle(std::exchange(other.handle, nullptr)) {}
  Descriptor &operator=(Descriptor &&) = delete;

  cudnnBackendDescriptor_t get() const { return handle; }
  Descriptor &set(cudnnBackendAttributeName_t name, int64_t value);
  Descriptor &set(cudnnBackendAttributeName_t name, float value);
  Descriptor &set(cudnnBackendAttributeName_t name, bool value);
  Descriptor &set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  Descriptor &set(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t value);
  Descriptor &set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value);
  Descriptor &set(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t value);
  Descriptor &set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value);
  Descriptor &set(cudnnBackendAttributeName_t name, cudnnHandle_t value);
  Descriptor &set(cudnnBackendAttributeName_t name, void *value);
  Descriptor &set(cudnnBackendAttributeName_t name, const std::vector<int64_t> &values);
  Descriptor &set(cudnnBackendAttributeName_t name, const std::vector<void *> &values);
  Descriptor &set(cudnnBackendAttributeName_t name, const std::string &value);
  Descriptor &set(cudnnBackendAttributeName_t name, const Descriptor &value);
  Descriptor &set(cudnnBackendAttributeName_t name, const std::vector<const Descriptor *> &values);
  /// Finalizes the descriptor. Messages call the descriptor `name`, e.g. "a tensor".
  Descriptor &finalize(const char *name);

  int64_t getInt(cudnnBackendAttributeName_t name) const;
  std::vector<cudnnBackendNumericalNote_t> getNotes(cudnnBackendAttributeName_t name) const;
  /// Returns at most `most` of the descriptors that an attribute contains. Creates descriptors of
  /// the given type and lets cuDNN fill them.
  std::vector<Descriptor> getDescriptors(cudnnBackendAttributeName_t name,
                                         cudnnBackendDescriptorType_t type, int64_t most) const;

private:
  Descriptor &setRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     int64_t count, const void *values);

  const Cudnn &cudnn;
  cudnnBackendDescriptor_t handle = nullptr;
};

} // namespace psrt::cuda

#endif
