// Descriptors of cuDNN's graph API: attributes as they were set, and what cuDNN asks of them.
#ifndef PSRT_TESTING_CUDNN_DESCRIPTORS_H
#define PSRT_TESTING_CUDNN_DESCRIPTORS_H

#include "runtime/device/cuda/cudnn/CudnnApi.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace psrt::fake {

using namespace psrt::cuda;

/// A call that is refused, with the words of cudnnGetLastErrorString.
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
  std::vector<DescriptorRef> descriptors; ///< of BACKEND_DESCRIPTOR: they stay as they were
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool isFinal = false;
  std::map<int, Attribute> attributes;
  int engine = -1; ///< of an engine or its configuration

  /// Refuses attributes that this type has not, that are read-only, or of another type or count.
  void set(cudnnBackendAttributeName_t name, Attribute attribute);
  /// Refuses what is missing or does not go together.
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

/// Bytes of one value; 0 for what is none of the types.
size_t bytesOf(cudnnBackendAttributeType_t type);
/// Bytes of one element; 0 for types that the fake has not.
int64_t bytesOf(cudnnDataType_t type);

} // namespace psrt::fake

#endif
