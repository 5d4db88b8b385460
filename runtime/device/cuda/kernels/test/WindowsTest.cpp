// Compares max pooling and convolutions with the CPU device.
#include "runtime/device/cuda/kernels/test/KernelTest.h"

using namespace psrt;
using namespace psrt::cuda;

namespace {

WindowShape makeWindows(std::array<int64_t, 3> in, std::array<int64_t, 3> kernel,
                        std::array<int64_t, 3> strides, std::array<int64_t, 3> low,
                        std::array<int64_t, 3> dilation) {
  WindowShape s{in, {}, kernel, strides, low, dilation};
  for (int d = 0; d < 3; ++d)
    s.out[d] = (in[d] + 2 * low[d] - (kernel[d] - 1) * dilation[d] - 1) / strides[d] + 1;
  return s;
}

const WindowShape kWindows[] = {
    makeWindows({1, 8, 8}, {1, 2, 2}, {1, 2, 2}, {}, {1, 1, 1}),
    makeWindows({1, 11, 9}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}),
    makeWindows({1, 13, 12}, {1, 3, 2}, {1, 1, 3}, {0, 2, 1}, {1, 2, 3}),
    makeWindows({5, 6, 7}, {3, 2, 3}, {2, 1, 1}, {1, 0, 1}, {1, 1, 2}),
    makeWindows({1, 1, 40}, {1, 1, 5}, {1, 1, 4}, {0, 0, 2}, {1, 1, 1}),
};

int64_t volume(const std::array<int64_t, 3> &sizes) { return sizes[0] * sizes[1] * sizes[2]; }

} // namespace

TEST(MaxPool, MatchesTheCpuBitForBit) {
  for (Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::BF16, Dtype::F16})
    for (const WindowShape &windows : kWindows)
      for (bool grad : {false, true}) {
        MaxPoolOp op;
        op.grad = grad, op.dtype = dtype, op.planes = 3, op.windows = windows;
        std::vector<float> x = randomIntegers(3 * volume(windows.in), 1); // with repeated values
        x[5] = x[7] = NAN;
        std::vector<Bytes> buffers = {encode(x, dtype),
                                      encode(randomValues(3 * volume(windows.out), 2), dtype)};
        if (grad)
          buffers.emplace_back(buffers[0].size(), 1);
        std::vector<Bytes> want = buffers;
        DeviceFixture().run(op, buffersOf(want));
        runReplay(launchMaxPool(op, pointersTo(buffers).data()));
        EXPECT_EQ(buffers, want) << dtypeName(dtype) << " " << grad;
      }
}

namespace {

/// Compares a convolution of whole numbers, whose sums are exact in any order.
void checkConvolution(ConvolutionOp op) {
  int64_t x = op.batch * op.groups * op.inChannels * volume(op.windows.in);
  int64_t y = op.batch * op.groups * op.outChannels * volume(op.windows.out);
  int64_t w = op.groups * op.inChannels * op.outChannels * volume(op.windows.kernel);
  std::vector<Bytes> buffers;
  for (int64_t count : {x, w, y}) {
    Dtype dtype = int(buffers.size()) == op.result ? op.outDtype : op.dtype;
    buffers.push_back(encode(randomIntegers(count, 3), dtype));
  }
  std::vector<Bytes> want = buffers;
  std::fill(buffers[op.result].begin(), buffers[op.result].end(), 1);
  DeviceFixture().run(op, buffersOf(want));
  runReplay(launchConvolution(op, pointersTo(buffers).data()));
  EXPECT_EQ(buffers, want) << op.result << " " << dtypeName(op.dtype) << " " << op.groups << " "
                           << op.inChannels;
}

} // namespace

TEST(Convolution, MatchesTheCpu) {
  for (int result : {ConvolutionOp::X, ConvolutionOp::W, ConvolutionOp::Y})
    for (auto [dtype, outDtype] :
         {std::pair{Dtype::F32, Dtype::F32}, std::pair{Dtype::F64, Dtype::F64},
          std::pair{Dtype::BF16, Dtype::F32}, std::pair{Dtype::BF16, Dtype::BF16},
          std::pair{Dtype::F16, Dtype::F16}, std::pair{Dtype::F16, Dtype::F32}})
      for (const WindowShape &windows : kWindows)
        for (auto [groups, in, out] :
             {std::array<int64_t, 3>{1, 3, 6}, std::array<int64_t, 3>{2, 5, 4},
              std::array<int64_t, 3>{4, 1, 1}}) {
          ConvolutionOp op;
          op.result = result, op.dtype = dtype, op.outDtype = outDtype, op.batch = 2;
          op.groups = groups, op.inChannels = in, op.outChannels = out, op.windows = windows;
          checkConvolution(op);
        }
}
