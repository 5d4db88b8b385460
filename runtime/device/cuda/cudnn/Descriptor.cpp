// Sets and gets attributes of each type.
#include "runtime/device/cuda/cudnn/Descriptor.h"
#include <algorithm>
#include <string>

namespace psrt::cuda {

std::vector<int64_t> getDenseStrides(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> result(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d-- > 0;)
    result[d] = result[d + 1] * sizes[d + 1];
  return result;
}

Descriptor::Descriptor(const Cudnn &cudnn, cudnnBackendDescriptorType_t type) : cudnn(cudnn) {
  cudnn.check(cudnn.createDescriptor(type, &handle), "to create a descriptor");
}

Descriptor::~Descriptor() {
  if (handle)
    cudnn.destroyDescriptor(handle);
}

Descriptor &Descriptor::setRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               int64_t count, const void *values) {
  cudnnStatus_t status = cudnn.setAttribute(handle, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) // build the text only for errors
    cudnn.check(status, ("to set attribute " + std::to_string(int(name))).c_str());
  return *this;
}

Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, int64_t value) {
  return setRaw(name, CUDNN_TYPE_INT64, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, float value) {
  return setRaw(name, CUDNN_TYPE_FLOAT, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  return setRaw(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  return setRaw(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t value) {
  return setRaw(name, CUDNN_TYPE_CONVOLUTION_MODE, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value) {
  return setRaw(name, CUDNN_TYPE_POINTWISE_MODE, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t value) {
  return setRaw(name, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value) {
  return setRaw(name, CUDNN_TYPE_HEUR_MODE, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, cudnnHandle_t value) {
  return setRaw(name, CUDNN_TYPE_HANDLE, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, void *value) {
  return setRaw(name, CUDNN_TYPE_VOID_PTR, 1, &value);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<int64_t> &values) {
  return setRaw(name, CUDNN_TYPE_INT64, int64_t(values.size()), values.data());
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<void *> &values) {
  return setRaw(name, CUDNN_TYPE_VOID_PTR, int64_t(values.size()), values.data());
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, const std::string &value) {
  return setRaw(name, CUDNN_TYPE_CHAR, int64_t(value.size()) + 1, value.c_str());
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor &value) {
  return setRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle);
}
Descriptor &Descriptor::set(cudnnBackendAttributeName_t name,
                            const std::vector<const Descriptor *> &values) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor *value : values)
    handles.push_back(value->handle);
  return setRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, int64_t(handles.size()), handles.data());
}

Descriptor &Descriptor::finalize(const char *name) {
  cudnnStatus_t status = cudnn.finalize(handle);
  if (status != CUDNN_STATUS_SUCCESS)
    cudnn.check(status, (std::string("to finalize ") + name).c_str());
  return *this;
}

int64_t Descriptor::getInt(cudnnBackendAttributeName_t name) const {
  int64_t value = 0, count = 0;
  cudnn.check(cudnn.getAttribute(handle, name, CUDNN_TYPE_INT64, 1, &count, &value),
              "to return a number");
  return value;
}

std::vector<cudnnBackendNumericalNote_t>
Descriptor::getNotes(cudnnBackendAttributeName_t name) const {
  std::vector<cudnnBackendNumericalNote_t> notes(32); // cuDNN 9 defines 10 notes
  int64_t count = 0;
  cudnn.check(cudnn.getAttribute(handle, name, CUDNN_TYPE_NUMERICAL_NOTE, int64_t(notes.size()),
                                 &count, notes.data()),
              "to return an engine's numerical notes");
  notes.resize(size_t(std::min<int64_t>(count, int64_t(notes.size()))));
  return notes;
}

std::vector<Descriptor> Descriptor::getDescriptors(cudnnBackendAttributeName_t name,
                                                   cudnnBackendDescriptorType_t type,
                                                   int64_t most) const {
  std::vector<Descriptor> result;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < most; ++i) {
    result.emplace_back(cudnn, type);
    handles.push_back(result.back().get());
  }
  int64_t count = 0;
  cudnn.check(
      cudnn.getAttribute(handle, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, handles.data()),
      "to return descriptors");
  while (int64_t(result.size()) > count)
    result.pop_back();
  return result;
}

} // namespace psrt::cuda
