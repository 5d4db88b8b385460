// Compares the CUDA kernels of sorts with the CPU device bit for bit, and the CPU with plain loops.
#include "runtime/device/cuda/kernels/test/KernelTest.h"

using namespace psrt;
using namespace psrt::cuda;

namespace {

struct Case {
  Dtype dtype;
  int64_t outer, size, inner;
  bool descending;
};

class Sort : public testing::TestWithParam<Case> {};

SortOp makeOp(const Case &c, bool grad) {
  SortOp op;
  op.grad = grad, op.descending = c.descending, op.dtype = c.dtype;
  op.outer = c.outer, op.size = c.size, op.inner = c.inner;
  return op;
}

/// Returns elements, many of which are equal. Floats include NaNs and zeros of both signs.
std::vector<double> makeElements(const Case &c) {
  std::mt19937 generator(5);
  std::vector<double> result(makeOp(c, false).elements());
  for (double &element : result) {
    element = double(generator() % 90) - (c.dtype == Dtype::U8 || c.dtype == Dtype::Bool ? 0 : 45);
    if (c.dtype == Dtype::Bool)
      element = element < 30;
    if (isFloat(c.dtype) && element > 35)
      element = element > 40 ? NAN : -0.0;
  }
  return result;
}

Bytes store(const std::vector<double> &elements, Dtype dtype) {
  Bytes result(elements.size() * dtypeSize(dtype));
  for (size_t i = 0; i < elements.size(); ++i)
    storeElement(result.data() + i * dtypeSize(dtype), dtype, elements[i]);
  return result;
}

/// Returns the sorted indices of all rows. The position of an element is the number of elements
/// that precede it: smaller elements, and equal elements that are earlier in the row.
std::vector<int64_t> sortStably(const Case &c, const std::vector<double> &elements) {
  SortOp op = makeOp(c, false);
  std::vector<int64_t> result(elements.size());
  for (int64_t row = 0; row < op.rows(); ++row) {
    auto get = [&](int64_t k) { return elements[op.first(row) + k * c.inner]; };
    auto isLess = [&](int64_t a, int64_t b) {
      return std::isnan(get(b)) ? !std::isnan(get(a)) : get(a) < get(b);
    };
    auto precedes = [&](int64_t a, int64_t b) {
      return c.descending ? isLess(b, a) : isLess(a, b);
    };
    for (int64_t k = 0; k < c.size; ++k) {
      int64_t position = 0;
      for (int64_t j = 0; j < c.size; ++j)
        position += precedes(j, k) || (j < k && !precedes(k, j));
      result[op.first(row) + position * c.inner] = k;
    }
  }
  return result;
}

/// Runs the op on the CPU and in the replay image, and returns the buffers of both.
std::pair<std::vector<Bytes>, std::vector<Bytes>> runBoth(const SortOp &op, Bytes x,
                                                          Bytes indices) {
  std::vector<Bytes> cpu(SortOp::Buffers);
  cpu[SortOp::Out] = Bytes(x.size(), 0x55);
  cpu[SortOp::X] = std::move(x), cpu[SortOp::Indices] = std::move(indices);
  std::vector<Bytes> cuda = cpu;
  DeviceFixture().run(op, buffersOf(cpu));
  Bytes workspace(workspaceBytes(op), 0x55);
  runReplay(launchSort(op, pointersTo(cuda).data(), workspace.data()));
  return {cpu, cuda};
}

} // namespace

TEST_P(Sort, IsStableAndTheSameOnBothDevices) {
  SortOp op = makeOp(GetParam(), false);
  std::vector<double> elements = makeElements(GetParam());
  std::vector<int64_t> indices = sortStably(GetParam(), elements);
  std::vector<double> sorted(elements.size());
  for (int64_t row = 0; row < op.rows(); ++row)
    for (int64_t k = 0; k < op.size; ++k) {
      int64_t at = op.first(row) + k * op.inner;
      sorted[at] = elements[op.first(row) + indices[at] * op.inner];
    }
  auto [cpu, cuda] =
      runBoth(op, store(elements, op.dtype), Bytes(elements.size() * sizeof(int64_t), 0x55));
  EXPECT_EQ(valuesOf<int64_t>(cpu[SortOp::Indices]), indices);
  EXPECT_EQ(cpu[SortOp::Out], store(sorted, op.dtype));
  EXPECT_EQ(cuda, cpu);
}

TEST_P(Sort, GradientTakesEachElementBack) {
  SortOp op = makeOp(GetParam(), true);
  if (!isFloat(op.dtype))
    return;
  std::vector<int64_t> indices = sortStably(GetParam(), makeElements(GetParam()));
  Bytes x = encode(randomValues(op.elements(), 1), op.dtype), want(x.size());
  int64_t size = dtypeSize(op.dtype);
  for (int64_t row = 0; row < op.rows(); ++row)
    for (int64_t k = 0; k < op.size; ++k) {
      int64_t from = op.first(row) + k * op.inner;
      int64_t to = op.first(row) + indices[from] * op.inner;
      std::memcpy(want.data() + to * size, x.data() + from * size, size);
    }
  auto [cpu, cuda] = runBoth(op, x, bytesOf(indices));
  EXPECT_EQ(cpu[SortOp::Out], want);
  EXPECT_EQ(cuda, cpu);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, Sort,
    testing::Values(Case{Dtype::F32, 3, 7, 1, false}, Case{Dtype::F32, 2, 1025, 1, true},
                    Case{Dtype::F32, 2, 600, 3, false}, Case{Dtype::F64, 1, 257, 5, true},
                    Case{Dtype::F16, 4, 256, 2, false}, Case{Dtype::BF16, 2, 512, 1, true},
                    Case{Dtype::I64, 3, 300, 2, false}, Case{Dtype::I32, 1, 1500, 1, true},
                    Case{Dtype::I16, 2, 513, 1, false}, Case{Dtype::I8, 2, 100, 3, true},
                    Case{Dtype::U8, 2, 300, 1, false}, Case{Dtype::Bool, 5, 290, 1, true},
                    Case{Dtype::F32, 3, 1, 2, false}, Case{Dtype::F32, 2, 0, 2, false}));

TEST(SortGradient, IgnoresIndicesOutsideOfTheRow) {
  SortOp op = makeOp({Dtype::F32, 1, 3, 1, false}, true);
  auto [cpu, cuda] =
      runBoth(op, bytesOf(std::vector<float>{1, 2, 3}), bytesOf(std::vector<int64_t>{2, -1, 3}));
  EXPECT_EQ(cpu[SortOp::Out], bytesOf(std::vector<float>{0, 0, 1}));
  EXPECT_EQ(cuda, cpu);
}
