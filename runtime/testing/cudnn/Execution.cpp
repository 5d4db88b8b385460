// Loads and stores elements of tensors, and chooses the class that computes an operation.
#include "runtime/testing/cudnn/Execution.h"
#include "runtime/core/Element.h"
#include "runtime/testing/cudnn/Attention.h"
#include "runtime/testing/cudnn/Composite.h"
#include "runtime/testing/cudnn/Convolution.h"
#include <cstring>

namespace psrt::fake {

void refuse(cudnnStatus_t status, const char *text) { throw Refusal{status, text}; }

static bool isSet(const Descriptor &d, cudnnBackendAttributeName_t name) {
  return d.attributes.count(name) && d.get<bool>(name);
}

Tensor::Tensor(const Descriptor &d)
    : id(d.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
      alignment(d.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)),
      type(d.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
      sizes(d.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
      strides(d.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)),
      isNumber(isSet(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
  if (isSet(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL))
    refuse(CUDNN_STATUS_BAD_PARAM, "an operation's tensor must not be virtual");
}

int64_t Tensor::bytes() const {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    last += (sizes[i] - 1) * strides[i];
  return (last + 1) * bytesOf(type);
}

double Tensor::load(int64_t at) const {
  const char *from = data + at * bytesOf(type);
  uint16_t bits = 0;
  int32_t integer = 0;
  float value = 0;
  switch (type) {
  case CUDNN_DATA_FLOAT:
    return std::memcpy(&value, from, sizeof(value)), value;
  case CUDNN_DATA_INT32:
    return std::memcpy(&integer, from, sizeof(integer)), integer;
  case CUDNN_DATA_BOOLEAN:
    return *from != 0;
  default:
    std::memcpy(&bits, from, sizeof(bits));
    return type == CUDNN_DATA_HALF ? fromHalf(bits) : fromBfloat16(bits);
  }
}

void Tensor::store(int64_t at, float value) const {
  char *to = data + at * bytesOf(type);
  if (type == CUDNN_DATA_FLOAT) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  uint16_t bits = type == CUDNN_DATA_HALF ? toHalf(value) : toBfloat16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

bool isOperation(cudnnBackendDescriptorType_t type) {
  return Convolution::isOne(type) || Attention::isOne(type);
}

std::shared_ptr<Execution> Execution::parse(const Descriptor &operation) {
  if (Attention::isOne(operation.type))
    return std::make_shared<Attention>(operation);
  return std::make_shared<Convolution>(operation);
}

bool isPart(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

std::shared_ptr<Execution> Execution::parseGraph(const Descriptor &graph) {
  const auto &operations = graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
  if (operations.size() == 1 && isOperation(operations[0]->type))
    return parse(*operations[0]);
  return std::make_shared<Composite>(operations);
}

void Execution::checkIds() {
  std::vector<Tensor *> all = tensors();
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (all[i]->id == all[j]->id)
        refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors have the same id");
}

void Execution::spoil(const Tensor &result) const {
  if (isWrong && result.bytes() > bytesOf(result.type))
    result.store(1, float(result.load(1) + 1));
  *result.data = char(*result.data ^ int(isUnrepeatable));
}

std::vector<PsrtFakeAccess> Execution::accesses() {
  std::vector<PsrtFakeAccess> all;
  for (const Tensor *tensor : tensors())
    if (!tensor->isNumber) {
      auto begin = reinterpret_cast<CUdeviceptr>(tensor->data);
      all.push_back({begin, begin + CUdeviceptr(tensor->bytes()), tensor->isWritten});
    }
  if (workspaceBytes) {
    auto begin = reinterpret_cast<CUdeviceptr>(workspace);
    all.push_back({begin, begin + CUdeviceptr(workspaceBytes), 1});
  }
  return all;
}

} // namespace psrt::fake
