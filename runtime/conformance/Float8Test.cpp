// Compares matmuls of 8-bit floats with plain loops in f32.
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/core/Status.h"
#include <gtest/gtest.h>

using namespace psrt;

namespace {

/// Returns the value of an 8-bit float.
float decode(uint8_t bits, Dtype dtype) {
  int mantissa = dtype == Dtype::F8E4M3 ? 3 : 2, bias = dtype == Dtype::F8E4M3 ? 7 : 15;
  int size = bits & 0x7f, exponent = std::max(size >> mantissa, 1);
  int significand = size < 1 << mantissa ? size : (size & ((1 << mantissa) - 1)) + (1 << mantissa);
  float number = std::ldexp(float(significand), exponent - bias - mantissa);
  return bits & 0x80 ? -number : number;
}

/// Returns random numbers with magnitudes around 1. Sums of a few products are then exact in f32.
std::vector<uint8_t> randomBytes(int64_t count, Dtype dtype, int seed) {
  int middle = dtype == Dtype::F8E4M3 ? 7 << 3 : 15 << 2;
  std::mt19937 generator(seed);
  std::vector<uint8_t> result(static_cast<size_t>(count));
  for (uint8_t &byte : result)
    byte = uint8_t(middle - 8 + generator() % 16) | (generator() % 2 ? 0x80 : 0);
  return result;
}

struct Case {
  int64_t b, m, n, k;
  bool lhsTurned, rhsTurned; ///< whether the contracted dim is the outer one
  bool bias, accumulate;
};

void check(const Case &c, Dtype lhsType, Dtype rhsType, Dtype outType) {
  std::vector<uint8_t> lhs = randomBytes(c.b * c.m * c.k, lhsType, 1),
                       rhs = randomBytes(c.b * c.k * c.n, rhsType, 2);
  std::vector<float> lhsScale{0.25}, rhsScale{8}, before(size_t(c.b * c.m * c.n)), bias(c.n);
  for (size_t i = 0; i < before.size(); ++i)
    before[i] = float(i % 7);
  for (size_t i = 0; i < bias.size(); ++i)
    bias[i] = float(i % 5);
  MatmulOp op;
  op.dtype = lhsType, op.otherRhsDtype = rhsType, op.outDtype = outType;
  op.batch = {1, c.b};
  op.m = c.m, op.n = c.n, op.k = c.k;
  op.lhs = {0, c.m * c.k, c.lhsTurned ? 1 : c.k, c.lhsTurned ? c.m : 1};
  op.rhs = {0, c.k * c.n, c.rhsTurned ? c.n : 1, c.rhsTurned ? 1 : c.k};
  op.out = {0, c.m * c.n, c.n, 1};
  std::vector<float> want = before;
  std::vector<double> magnitudes(want.size()); // sums of the absolute values of the products
  for (int64_t b = 0; b < c.b; ++b)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        float sum = 0;
        size_t at = size_t((b * c.m + i) * c.n + j);
        for (int64_t k = 0; k < c.k; ++k) {
          float product =
              decode(lhs[size_t(b * op.lhs[1] + i * op.lhs[2] + k * op.lhs[3])], lhsType) *
              decode(rhs[size_t(b * op.rhs[1] + k * op.rhs[2] + j * op.rhs[3])], rhsType);
          sum += product;
          magnitudes[at] += std::fabs(product);
        }
        float &to = want[at];
        to = sum * 2 + (c.bias ? bias[size_t(j)] : 0) + (c.accumulate ? to : 0);
      }
  size_t size = size_t(dtypeSize(outType));
  std::vector<char> out(before.size() * size), added(bias.size() * size), wanted(out.size());
  for (size_t i = 0; i < before.size(); ++i) {
    storeElement(out.data() + i * size, outType, before[i]);
    storeElement(wanted.data() + i * size, outType, want[i]);
  }
  for (size_t i = 0; i < bias.size(); ++i)
    storeElement(added.data() + i * size, outType, bias[i]);
  DeviceFixture().run(
      op, {lhs, rhs, out, c.bias ? TestBuffer(added) : nullptr, nullptr, lhsScale, rhsScale},
      c.accumulate);
  if (!usesNvidia()) {
    EXPECT_EQ(out, wanted);
    return;
  }
  // Hopper sums 8-bit products with a precision of 14 bits. cuBLASLt rounds a sum before it adds
  // the bias or the earlier value.
  double rounding = outType == Dtype::F32 ? 0x1p-13 : roundingOf(outType), worst = 0;
  std::vector<float> found = decode(out, outType);
  for (size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::fabs(double(found[i]) - want[i]) /
                                (rounding * (2 * magnitudes[i] + std::fabs(want[i]))));
  EXPECT_LE(worst, 1);
}

bool hasFloat8() { return testTarget() != "cpu"; }

} // namespace

TEST(Float8Matmul, EqualsPlainLoops) {
  if (!hasFloat8())
    GTEST_SKIP() << "the cpu does not support matmuls of 8-bit floats";
  constexpr Dtype e4m3 = Dtype::F8E4M3, e5m2 = Dtype::F8E5M2;
  for (auto [lhs, rhs] : {std::pair(e4m3, e4m3), std::pair(e4m3, e5m2), std::pair(e5m2, e4m3)})
    for (bool lhsTurned : {false, true})
      for (bool rhsTurned : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << dtypeName(lhs) << " " << dtypeName(rhs) << " " << lhsTurned << rhsTurned);
        check({1, 48, 32, 64, lhsTurned, rhsTurned, false, false}, lhs, rhs, Dtype::BF16);
        check({1, 16, 80, 32, lhsTurned, rhsTurned, true, false}, lhs, rhs, Dtype::F16);
        check({1, 96, 16, 16, lhsTurned, rhsTurned, false, true}, lhs, rhs, Dtype::F32);
        check({3, 32, 48, 80, lhsTurned, rhsTurned, false, false}, lhs, rhs, Dtype::F32);
      }
}

TEST(Float8Matmul, RefusesUnsupportedCases) {
  MatmulOp op;
  op.dtype = Dtype::F8E4M3, op.outDtype = Dtype::F32;
  op.m = 16, op.n = 16, op.k = hasFloat8() ? 24 : 16;
  op.lhs = {0, 0, op.k, 1}, op.rhs = {0, 0, 1, op.k}, op.out = {0, 0, 16, 1};
  std::vector<uint8_t> bytes(16 * 24);
  std::vector<float> out(16 * 16), scale{1};
  EXPECT_THROW(DeviceFixture().run(op, {bytes, bytes, out, nullptr, nullptr, scale, scale}), Error);
}
