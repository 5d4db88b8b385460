// Reads gradients between backward and update: gathers them, and divides them by the step's count
// and by the loss scale.
#include "runtime/core/Element.h"
#include "runtime/data/Safetensors.h"
#include "runtime/main/Parts.h"
#include <cstring>

namespace psrt {

/// Divides an array of T, with a size of `bytes`, by `count`. A count of 0 gives zeros.
template <typename T> static void divide(char *data, int64_t bytes, double count) {
  for (int64_t at = 0; at < bytes; at += sizeof(T)) {
    T x;
    std::memcpy(&x, data + at, sizeof(T));
    x = count != 0 ? T(x / T(count)) : T(0);
    std::memcpy(data + at, &x, sizeof(T));
  }
}

/// Divides 16-bit floats in f64 and rounds once.
static void divideNarrow(char *data, Dtype dtype, int64_t bytes, double count) {
  for (int64_t at = 0; at < bytes; at += dtypeSize(dtype))
    storeElement(data + at, dtype, count != 0 ? loadFloat(data + at, dtype) / count : 0);
}

void readGradient(Session &session, const NamedTensor &gradient, double count, char *whole) {
  readTensor(session, gradient, whole);
  if (gradient.dtype == Dtype::F32)
    divide<float>(whole, gradient.bytes(), count);
  else if (gradient.dtype == Dtype::F64)
    divide<double>(whole, gradient.bytes(), count);
  else
    divideNarrow(whole, gradient.dtype, gradient.bytes(), count);
}

void writeGradients(Session &session, const NamedTensors &tensors, const std::string &path) {
  StepGradients step = readLossBeforeUpdate(session);
  SafetensorsWriter writer;
  writer.add("loss", Dtype::F32, {}, [&](char *data) {
    float loss = float(step.loss);
    std::memcpy(data, &loss, 4);
  });
  for (const NamedTensor &tensor : tensors.all())
    if (tensor.kind == VariableKind::Gradient)
      writer.add(tensor.name, tensor.dtype, tensor.shape,
                 [&](char *data) { readGradient(session, tensor, step.divisor, data); });
  writer.write(session.isFirst() ? path : "");
}

} // namespace psrt
