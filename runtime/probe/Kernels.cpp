// Defines the kernels of the probe's program.
#include "runtime/probe/Kernels.h"
#include <cmath>

namespace psrt {

/// Computes out = a + b. Arguments: a, b, out.
static void add(void *const *buffers, const int64_t *, int64_t lo, int64_t hi) {
  const float *a = static_cast<const float *>(buffers[0]);
  const float *b = static_cast<const float *>(buffers[1]);
  float *__restrict out = static_cast<float *>(buffers[2]);
  for (int64_t i = lo * kProbeRow; i < hi * kProbeRow; ++i)
    out[i] = a[i] + b[i];
}

/// Divides each row by its root mean square. Arguments: in, out.
static void normalize(void *const *buffers, const int64_t *, int64_t lo, int64_t hi) {
  constexpr int64_t kParts = 16; // independent sums, as in generated reductions
  for (int64_t row = lo; row < hi; ++row) {
    const float *in = static_cast<const float *>(buffers[0]) + row * kProbeRow;
    float *__restrict out = static_cast<float *>(buffers[1]) + row * kProbeRow;
    float parts[kParts] = {}, sum = 0;
    for (int64_t i = 0; i < kProbeRow; i += kParts)
      for (int64_t j = 0; j < kParts; ++j)
        parts[j] += in[i + j] * in[i + j];
    for (float part : parts)
      sum += part;
    float factor = 1 / std::sqrt(sum / float(kProbeRow) + 1e-5f);
    for (int64_t i = 0; i < kProbeRow; ++i)
      out[i] = in[i] * factor;
  }
}

static void doNothing(void *const *, const int64_t *, int64_t, int64_t) {}

const Kernel probeKernels[] = {add, normalize, doNothing};

} // namespace psrt
