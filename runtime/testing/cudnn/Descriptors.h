// Stores descriptors of cuDNN's graph API with their attributes, and checks them as cuDNN does.
#ifndef PSRT_TESTING_CUDNN_DESCRIPTORS_H
#define PSRT_TESTING_CUDNN_DESCRIPTORS_H

#include "runtime/device/cuda/cudnn/CudnnApi.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace psrt::fake {

using namespace psrt::cuda;

/// A refused call, with the text of cudnnGetLastErrorString.
struct Refusal {
  cudnnStatus_t status;
  std::string text;
};

struct Descriptor;
using DescriptorRef = std::shared_ptr<Descriptor>;

struct Attribute {
  cudnnBackendAttributeType_t type;
  int64_t count;
  std::vector<char> bytes;
  std::vector<DescriptorRef>
      descriptors; ///< set for BACKEND_DESCRIPTOR; copies share the descriptors
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool isFinal = false;
  std::map<int, Attribute> attributes;
  int engine = -1; ///< set for engines and their configurations

  /// Sets an attribute. Refuses attributes that this descriptor type lacks, that are read-only, or
  /// whose type or count is wrong.
  void set(cudnnBackendAttributeName_t name, Attribute attribute);
  /// Finalizes the descriptor. Refuses missing or inconsistent attributes.
  void finalize();

  template <typename T> std::vector<T> list(cudnnBackendAttributeName_t name) const {
    const Attribute &attribute = attributes.at(name);
    auto *begin = reinterpret_cast<const T *>(attribute.bytes.data());
    return std::vector<T>(begin, begin + attribute.count);
  }
  template <typename T> T get(cudnnBackendAttributeName_t name) const {
    return list<T>(name).at(0);
  }
  const Descriptor &child(cudnnBackendAttributeName_t name) const {
    return *attributes.at(name).descriptors.at(0);
  }
};

/// Returns the bytes of one value, or 0 for an unknown type.
size_t bytesOf(cudnnBackendAttributeType_t type);
/// Returns the bytes of one element, or 0 for types that the fake does not support.
int64_t bytesOf(cudnnDataType_t type);

} // namespace psrt::fake

#endif
