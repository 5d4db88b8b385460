// Runs single instructions on the CPU device, for tests.
#ifndef PSRT_CONFORMANCE_DEVICEFIXTURE_H
#define PSRT_CONFORMANCE_DEVICEFIXTURE_H

#include "runtime/core/Backend.h"
#include "runtime/core/Element.h"
#include <cmath>
#include <random>

namespace psrt {

class DeviceFixture {
public:
  explicit DeviceFixture(int threads = 2)
      : device(makeCpuDevice()), rank(device->makeRank(threads, false)) {}

  template <typename Op>
  void run(const Op &op, std::vector<void *> buffers, bool accumulate = false, int64_t key = 0,
           int64_t step = 0) {
    Instruction instruction;
    instruction.op = op;
    int64_t scalars[] = {42, step, 0};
    Bound bound;
    bound.instruction = &instruction;
    bound.buffers = buffers.data();
    bound.scalars = scalars;
    bound.accumulate = accumulate;
    bound.key = key;
    // Fresh for each instruction: what a rank was prepared to is remembered by the instruction's
    // address.
    rank = device->makeRank(rank->threads(), false);
    rank->bind(bound);
    rank->reserve();
    bound.run(bound);
  }

private:
  std::unique_ptr<Device> device;
  std::unique_ptr<RankDevice> rank;
};

inline std::vector<float> randomValues(int64_t count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> result(count);
  for (float &x : result)
    x = normal(generator);
  return result;
}

/// Whole numbers of -8 to 8, exact in every dtype; so are sums of products of a few thousand, in
/// f32.
inline std::vector<float> randomIntegers(int64_t count, int seed) {
  std::mt19937 generator(seed);
  std::vector<float> result(count);
  for (float &x : result)
    x = float(int(generator() % 17)) - 8;
  return result;
}

/// Numbers as the bytes of a float dtype, rounded.
inline std::vector<char> encode(const std::vector<float> &values, Dtype dtype) {
  std::vector<char> result(values.size() * dtypeSize(dtype));
  convertFloats(reinterpret_cast<const char *>(values.data()), Dtype::F32, result.data(), dtype,
                values.size());
  return result;
}

inline std::vector<float> decode(const std::vector<char> &bytes, Dtype dtype) {
  std::vector<float> result(bytes.size() / dtypeSize(dtype));
  convertFloats(bytes.data(), dtype, reinterpret_cast<char *>(result.data()), Dtype::F32,
                result.size());
  return result;
}

/// What numbers become when they are stored as `dtype`.
inline std::vector<float> roundTo(const std::vector<float> &values, Dtype dtype) {
  return decode(encode(values, dtype), dtype);
}

} // namespace psrt

#endif
