// Defines the kernels of the hand-written program, and the symbols that a compiled program for 2
// ranks exports.
#include "runtime/conformance/TinyProgram.h"

namespace {

float *at(void *const *buffers, int i) { return static_cast<float *>(buffers[i]); }

float predict(const float *x, const float *w) {
  float sum = 0;
  for (int64_t j = 0; j < tinyWidth; ++j)
    sum += x[j] * w[j];
  return sum;
}

/// Adds the sum of squared errors, the gradient of this sum and the number of rows to the
/// accumulators. The buffers are (x, y, w, grad, sum, count). The function must be called once with
/// all rows.
void forward(void *const *buffers, const int64_t *scalars, int64_t lo, int64_t hi) {
  float *grad = at(buffers, 3), *sum = at(buffers, 4), *count = at(buffers, 5);
  if (scalars[3]) {
    for (int64_t j = 0; j < tinyWidth; ++j)
      grad[j] = 0;
    *sum = *count = 0;
  }
  for (int64_t i = lo; i < hi; ++i) {
    const float *x = at(buffers, 0) + i * tinyWidth;
    float difference = predict(x, at(buffers, 2)) - at(buffers, 1)[i];
    for (int64_t j = 0; j < tinyWidth; ++j)
      grad[j] += 2 * difference * x[j];
    *sum += difference * difference;
    *count += 1;
  }
}

/// Runs an SGD step on elements [lo, hi), and computes the loss. The buffers are (w, grad, sum,
/// count, loss, lr).
void update(void *const *buffers, const int64_t *, int64_t lo, int64_t hi) {
  float count = *at(buffers, 3);
  for (int64_t j = lo; j < hi; ++j)
    at(buffers, 0)[j] -= *at(buffers, 5) * at(buffers, 1)[j] / count;
  if (lo == 0)
    *at(buffers, 4) = *at(buffers, 2) / count;
}

/// Computes the predictions, the sum of squared errors and the number of rows. The buffers are (x,
/// y, w, sum, count, prediction).
void evaluate(void *const *buffers, const int64_t *, int64_t lo, int64_t hi) {
  *at(buffers, 3) = *at(buffers, 4) = 0;
  for (int64_t i = lo; i < hi; ++i) {
    float prediction = predict(at(buffers, 0) + i * tinyWidth, at(buffers, 2));
    float difference = prediction - at(buffers, 1)[i];
    at(buffers, 5)[i] = prediction;
    *at(buffers, 3) += difference * difference;
    *at(buffers, 4) += 1;
  }
}

} // namespace

extern "C" {
extern const char psrt_program_json[] = PSRT_TINY_TABLE("2", "4");
extern const uint64_t psrt_program_json_size = sizeof(psrt_program_json) - 1;
extern const psrt::Kernel psrt_program_kernels[] = {forward, update, evaluate};
}
