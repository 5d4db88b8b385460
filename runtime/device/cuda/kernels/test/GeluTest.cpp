// Compares the GELU and its derivative with results computed in f64.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/kernels/Kernel.h"
#include "runtime/device/cuda/kernels/test/KernelTest.h"

using namespace psrt;
using namespace psrt::cuda;

namespace {

double slopeOfGelu(double x, double &value) {
  double k = std::sqrt(2 / M_PI), t = std::tanh(k * (x + 0.044715 * x * x * x));
  value = 0.5 * x * (1 + t);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

/// Returns `count` numbers: first zeros, large and small numbers, then random numbers.
std::vector<float> makeArguments(int64_t count) {
  std::vector<float> result = randomValues(count, 1);
  for (float &x : result)
    x *= 3;
  const float special[] = {0,      -0.0f,   30000,   -30000,  10,     -10, 1e-6f,
                           -1e-6f, -10.05f, -10.06f, -10.07f, -10.5f, -20, -88.8f};
  for (size_t i = 0; i < std::size(special) && i < result.size(); ++i)
    result[i] = special[i];
  return result;
}

void check(Dtype dtype, int64_t count, bool grad, bool inPlace) {
  Bytes x = encode(makeArguments(count), dtype), g = encode(randomValues(count, 2), dtype);
  std::vector<float> at = decode(x, dtype), by = decode(g, dtype);
  Bytes other(x.size(), 0x55);
  Bytes &out = !inPlace ? other : grad ? g : x;
  runReplay(grad ? launchGeluGrad(dtype, g.data(), x.data(), out.data(), count)
                 : launchGelu(dtype, x.data(), out.data(), count));
  double rounding = dtype == Dtype::F32 ? 2e-6 : dtype == Dtype::F16 ? 0x1p-11 : 0x1p-8;
  std::vector<float> found = decode(out, dtype);
  for (int64_t i = 0; i < count; ++i) {
    double value, slope = slopeOfGelu(at[i], value), want = grad ? by[i] * slope : value;
    ASSERT_NEAR(found[i], want, 1e-6 + rounding * std::fabs(want)) << at[i];
  }
}

} // namespace

TEST(Gelu, UsesTheTanhFormula) {
  for (Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16})
    for (int64_t count : {1, 7, 5000})
      for (bool grad : {false, true})
        for (bool inPlace : {false, true})
          check(dtype, count, grad, inPlace);
}

TEST(Gelu, HugeNumbersGiveNoNaN) {
  std::vector<float> x = {1e20f, -1e20f, 3e38f, -3e38f}, g(4, 2), out(4);
  runReplay(launchGelu(Dtype::F32, x.data(), out.data(), 4));
  EXPECT_EQ(out, (std::vector<float>{1e20f, 0, 3e38f, 0}));
  runReplay(launchGeluGrad(Dtype::F32, g.data(), x.data(), out.data(), 4));
  EXPECT_EQ(out, (std::vector<float>{2, 0, 2, 0}));
}

TEST(Gelu, InfinityAndNaN) {
  float infinite = INFINITY;
  std::vector<float> x = {infinite, NAN, -infinite}, out(3);
  runReplay(launchGelu(Dtype::F32, x.data(), out.data(), 3));
  EXPECT_EQ(out[0], infinite);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(out[2])) << "GELU(-inf) is -inf * 0, as in PyTorch";
}

/// Tests exp at the ends of its range. The formula is that of the kernels, compiled for the CPU.
TEST(Exponential, NeitherOverflowsToNaNNorUnderflows) {
  for (float x : {0.f, 1.f, -1.f, 88.7f, 88.72f, 88.73f, 88.8f, 89.f, 1e4f, 3e38f, -87.3f, -88.8f,
                  -103.9f, -104.f, -1e4f, -3e38f, float(INFINITY), -float(INFINITY)}) {
    float exact = std::exp(x), want = exact < 0x1p-126f ? 0 : exact;
    if (std::isinf(want))
      EXPECT_EQ(exponential(x), want) << x;
    else
      EXPECT_NEAR(exponential(x), want, 4e-7 * want) << x;
  }
}

TEST(Gelu, RefusesOtherDtypes) { EXPECT_THROW(launchGelu(Dtype::F64, nullptr, nullptr, 4), Error); }
