// Compares convolutions in f32 and 16-bit floats with those of the same device in f64, which are
// plain loops. Also tests max pooling. Uses several numbers of threads.
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/device/cpu/Windows.h"
#include <gtest/gtest.h>

using namespace psrt;

namespace {

struct Case {
  int64_t batch, groups, in, out;
  WindowShape windows;
};

/// Returns the windows of images with two spatial dims.
WindowShape plane(std::array<int64_t, 2> in, std::array<int64_t, 2> out,
                  std::array<int64_t, 2> kernel, int64_t stride, int64_t low,
                  int64_t dilation = 1) {
  WindowShape s;
  s.in = {1, in[0], in[1]}, s.out = {1, out[0], out[1]}, s.kernel = {1, kernel[0], kernel[1]};
  s.strides = {1, stride, stride}, s.low = {0, low, low}, s.dilation = {1, dilation, dilation};
  return s;
}

/// Returns the numbers of elements of x, w and y.
std::array<int64_t, 3> getSizes(const Case &c) {
  return {c.batch * c.groups * c.in * volume(c.windows.in),
          c.groups * c.in * c.out * volume(c.windows.kernel),
          c.batch * c.groups * c.out * volume(c.windows.out)};
}

std::vector<double> widen(const std::vector<float> &values) {
  return {values.begin(), values.end()};
}

class Convolution : public testing::TestWithParam<Case> {};

} // namespace

TEST_P(Convolution, EqualsPlainLoops) {
  Case c = GetParam();
  std::array<int64_t, 3> sizes = getSizes(c);
  ConvolutionOp op;
  op.batch = c.batch, op.groups = c.groups, op.inChannels = c.in, op.outChannels = c.out;
  op.windows = c.windows;
  for (int result : {ConvolutionOp::X, ConvolutionOp::W, ConvolutionOp::Y})
    for (int threads : {1, 3}) {
      std::vector<std::vector<float>> tensors;
      std::vector<std::vector<double>> exact;
      for (int i = 0; i < 3; ++i) {
        tensors.push_back(randomValues(sizes[i], i));
        exact.push_back(widen(tensors[i]));
      }
      op.result = result;
      op.dtype = op.outDtype = Dtype::F32;
      DeviceFixture(threads).run(op, {tensors[0], tensors[1], tensors[2]});
      op.dtype = op.outDtype = Dtype::F64;
      DeviceFixture(threads).run(op, {exact[0], exact[1], exact[2]});
      double worst = 0, largest = 0;
      for (int64_t i = 0; i < sizes[result]; ++i) {
        worst = std::max(worst, std::fabs(tensors[result][i] - exact[result][i]));
        largest = std::max(largest, std::fabs(exact[result][i]));
      }
      EXPECT_LT(worst, 4e-6 * largest) << "result " << result << ", " << threads << " threads";
    }
}

/// The inputs are whole numbers, whose sums are exact in f32. The result must be the exact sum,
/// rounded once.
TEST_P(Convolution, OfNarrowFloatsIsRoundedOnce) {
  Case c = GetParam();
  std::array<int64_t, 3> sizes = getSizes(c);
  ConvolutionOp op;
  op.batch = c.batch, op.groups = c.groups, op.inChannels = c.in, op.outChannels = c.out;
  op.windows = c.windows;
  for (int result : {ConvolutionOp::X, ConvolutionOp::W, ConvolutionOp::Y}) {
    std::vector<std::vector<float>> tensors;
    std::vector<std::vector<double>> exact;
    for (int i = 0; i < 3; ++i) {
      tensors.push_back(randomIntegers(sizes[i], i));
      exact.push_back(widen(tensors[i]));
    }
    op.result = result;
    op.dtype = op.outDtype = Dtype::F64;
    DeviceFixture().run(op, {exact[0], exact[1], exact[2]});
    std::vector<float> want(exact[result].begin(), exact[result].end());
    for (Dtype dtype : {Dtype::BF16, Dtype::F16})
      for (Dtype outDtype : {dtype, Dtype::F32})
        for (int threads : {1, 3}) {
          std::vector<std::vector<char>> stored;
          for (int i = 0; i < 3; ++i)
            stored.push_back(encode(tensors[i], i == result ? outDtype : dtype));
          op.dtype = dtype, op.outDtype = outDtype;
          DeviceFixture(threads).run(op, {stored[0], stored[1], stored[2]});
          EXPECT_EQ(decode(stored[result], outDtype), roundTo(want, outDtype))
              << "result " << result << ", " << dtypeName(dtype) << " to " << dtypeName(outDtype)
              << ", " << threads << " threads";
        }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Convolution,
    testing::Values(
        Case{8, 1, 3, 16, plane({12, 10}, {6, 5}, {3, 3}, 2, 1)},
        Case{4, 1, 16, 20, plane({9, 9}, {9, 9}, {3, 3}, 1, 1)},
        Case{2, 1, 16, 32, plane({8, 8}, {8, 8}, {1, 1}, 1, 0)},
        Case{5, 3, 4, 5, plane({7, 8}, {3, 4}, {3, 3}, 2, 1)},
        Case{3, 24, 1, 1, plane({9, 9}, {9, 9}, {3, 3}, 1, 1)},
        Case{3, 6, 1, 2, plane({9, 9}, {4, 4}, {3, 2}, 2, 1)},
        Case{2, 1, 5, 7, plane({11, 12}, {7, 8}, {3, 3}, 1, 0, 2)},
        Case{4, 1, 3, 8, plane({16, 16}, {4, 4}, {4, 4}, 4, 0)},
        Case{1, 1, 4, 4, plane({2, 2}, {4, 4}, {1, 1}, 1, 1)},
        // The last window ends more than a stride before the end of the input, which no library
        // supports.
        Case{2, 1, 3, 2, plane({12, 12}, {4, 4}, {2, 2}, 2, 0)},
        Case{3, 1, 4, 6,
             WindowShape{{1, 1, 20}, {1, 1, 9}, {1, 1, 5}, {1, 1, 2}, {0, 0, 1}, {1, 1, 1}}},
        Case{3, 1, 4, 6,
             WindowShape{{4, 5, 6}, {4, 5, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}}));

TEST(Convolution, GivesTheSameBitsAgain) {
  Case c{7, 1, 8, 12, plane({9, 9}, {9, 9}, {3, 3}, 1, 1)};
  std::array<int64_t, 3> sizes = getSizes(c);
  std::vector<float> x = randomValues(sizes[0], 1), y = randomValues(sizes[2], 2), w(sizes[1]),
                     again(sizes[1]);
  ConvolutionOp op;
  op.result = ConvolutionOp::W;
  op.batch = c.batch, op.inChannels = c.in, op.outChannels = c.out, op.windows = c.windows;
  DeviceFixture(3).run(op, {x, w, y});
  DeviceFixture(3).run(op, {x, again, y});
  EXPECT_EQ(w, again);
}

TEST(MaxPool, TakesTheFirstMaximumAndTheLastNan) {
  float nan = std::nanf("");
  std::vector<float> x = {1, 3, 3, 0, nan, 2, nan, 5}, y(4), out(8, 9), g = {1, 10, 100, 1000};
  MaxPoolOp op;
  op.planes = 1;
  op.windows.in = {1, 1, 8}, op.windows.out = {1, 1, 4}, op.windows.kernel = {1, 1, 3};
  op.windows.strides = {1, 1, 2}, op.windows.low = {0, 0, 1};
  DeviceFixture().run(op, {x, y, nullptr});
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[1], 3);
  EXPECT_TRUE(std::isnan(y[2]) && std::isnan(y[3]));
  op.grad = true;
  DeviceFixture().run(op, {x, g, out});
  EXPECT_EQ(out, (std::vector<float>{0, 11, 0, 0, 100, 0, 1000, 0}));
}

TEST(MaxPool, OfNarrowFloatsIsRoundedOnce) {
  MaxPoolOp op;
  op.windows = plane({9, 10}, {9, 10}, {3, 3}, 1, 1);
  op.planes = 50;
  int64_t elements = op.planes * volume(op.windows.in);
  std::vector<float> x = randomIntegers(elements, 1), y(elements), out(elements),
                     g = randomIntegers(elements, 2);
  for (float &value : g) // large enough that rounding sums of up to nine values matters
    value = 100 + value;
  DeviceFixture().run(op, {x, y, nullptr});
  op.grad = true;
  DeviceFixture().run(op, {x, g, out});
  for (Dtype dtype : {Dtype::BF16, Dtype::F16})
    for (int threads : {1, 3}) {
      std::vector<char> storedX = encode(x, dtype), storedG = encode(g, dtype), found(2 * elements);
      op.dtype = dtype;
      op.grad = false;
      DeviceFixture(threads).run(op, {storedX, found, nullptr});
      EXPECT_EQ(decode(found, dtype), y);
      op.grad = true;
      DeviceFixture(threads).run(op, {storedX, storedG, found});
      EXPECT_EQ(decode(found, dtype), roundTo(out, dtype));
    }
}
