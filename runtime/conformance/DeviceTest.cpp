// Tests the thread pool, matmul and embedding against plain loops in f64.
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/conformance/Environment.h"
#include "runtime/device/cpu/NarrowFloat.h"
#include "runtime/device/cpu/ThreadPool.h"
#include <gtest/gtest.h>
#include <numeric>

using namespace psrt;

TEST(ThreadPool, CallsEveryPieceOnceOnTheGrain) {
  for (int threads : {1, 2, 3})
    for (int64_t count : {0, 1, 7, 64, 1000}) {
      ThreadPool pool(threads, false);
      struct Context {
        std::vector<std::atomic<int>> hits;
        std::atomic<int> wrong{0};
        int64_t count;
      } context{std::vector<std::atomic<int>>(count + 1), {}, count};
      for (int repeat = 0; repeat < 20; ++repeat)
        pool.run(
            [](void *data, int, int64_t lo, int64_t hi) {
              Context &c = *static_cast<Context *>(data);
              if (lo % 8 != 0 || hi != std::min(c.count, lo + 8))
                ++c.wrong;
              for (int64_t i = lo; i < hi; ++i)
                ++c.hits[i];
            },
            &context, count, 8);
      EXPECT_EQ(context.wrong, 0);
      for (int64_t i = 0; i < count; ++i)
        EXPECT_EQ(context.hits[i], 20);
    }
}

TEST(ThreadPool, AnExceptionOfAnyPieceReachesTheCaller) {
  ThreadPool pool(3, false);
  for (int repeat = 0; repeat < 10; ++repeat)
    EXPECT_THROW(pool.run([](void *, int, int64_t lo, int64_t) { lo == 5 ? throw 1 : void(); },
                          nullptr, 9, 1),
                 int);
  int sum = 0;
  pool.run([](void *data, int, int64_t, int64_t) { ++*static_cast<int *>(data); }, &sum, 1, 1);
  EXPECT_EQ(sum, 1);
}

struct MatmulCase {
  int64_t b, m, n, k;
  bool lhsTransposed, rhsTransposed, accumulate, bias;
};

class Matmul : public testing::TestWithParam<MatmulCase> {};

static MatmulOp makeMatmul(const MatmulCase &c) {
  MatmulOp op;
  op.batch = {1, c.b};
  op.m = c.m, op.n = c.n, op.k = c.k;
  op.lhs = {0, c.m * c.k, c.lhsTransposed ? 1 : c.k, c.lhsTransposed ? c.m : 1};
  op.rhs = {0, c.k * c.n, c.rhsTransposed ? 1 : c.n, c.rhsTransposed ? c.k : 1};
  op.out = {0, c.m * c.n, c.n, 1};
  return op;
}

/// Returns [b][m][n], computed by plain loops in f64. The inner loop has no sum, because compilers
/// vectorize only loops without one.
static std::vector<double> multiply(const MatmulOp &op, const std::vector<float> &lhs,
                                    const std::vector<float> &rhs) {
  std::vector<double> out(size_t(op.batch[1] * op.m * op.n)), row(op.n);
  for (int64_t b = 0; b < op.batch[1]; ++b)
    for (int64_t k = 0; k < op.k; ++k) {
      for (int64_t j = 0; j < op.n; ++j)
        row[j] = rhs[b * op.rhs[1] + k * op.rhs[2] + j * op.rhs[3]];
      for (int64_t i = 0; i < op.m; ++i) {
        double factor = lhs[b * op.lhs[1] + i * op.lhs[2] + k * op.lhs[3]];
        double *sums = &out[(b * op.m + i) * op.n];
        for (int64_t j = 0; j < op.n; ++j)
          sums[j] += factor * row[j];
      }
    }
  return out;
}

TEST_P(Matmul, EqualsPlainLoops) {
  MatmulCase c = GetParam();
  std::vector<float> lhs = randomValues(c.b * c.m * c.k, 1), rhs = randomValues(c.b * c.k * c.n, 2);
  std::vector<float> out = randomValues(c.b * c.m * c.n, 3), bias = randomValues(c.n, 4),
                     before = out;
  MatmulOp op = makeMatmul(c);
  DeviceFixture().run(op, {lhs, rhs, out, c.bias ? TestBuffer(bias) : nullptr}, c.accumulate);
  std::vector<double> want = multiply(op, lhs, rhs);
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    double sum = want[i] + (c.accumulate ? before[i] : 0) + (c.bias ? bias[i % size_t(c.n)] : 0);
    worst = std::max(worst, std::fabs(sum - out[i]));
  }
  EXPECT_LT(worst, 1e-5 * std::sqrt(double(c.k)) * 4);
}

/// Returns the largest ratio of an element's error to its bound. The bound allows two roundings,
/// because cuBLASLt rounds a sum before it adds a bias or an earlier value, and rounds again
/// afterwards. `added` bounds the magnitude of the added values.
static double worstOfTwoRoundings(const std::vector<float> &found, const std::vector<float> &want,
                                  float added, Dtype dtype) {
  double result = 0;
  for (size_t i = 0; i < found.size(); ++i)
    result = std::max(result, std::fabs(double(found[i]) - want[i]) /
                                  (roundingOf(dtype) * (2 * std::fabs(double(want[i])) + added)));
  return result;
}

/// The inputs are whole numbers, whose sums are exact in f32. The result must be the exact sum,
/// rounded once.
TEST_P(Matmul, OfNarrowFloatsIsRoundedOnce) {
  MatmulCase c = GetParam();
  std::vector<float> lhs = randomIntegers(c.b * c.m * c.k, 1),
                     rhs = randomIntegers(c.b * c.k * c.n, 2);
  std::vector<float> before = randomIntegers(c.b * c.m * c.n, 3), want(before.size()),
                     bias = randomIntegers(c.n, 4);
  MatmulOp op = makeMatmul(c);
  std::vector<double> sums = multiply(op, lhs, rhs);
  for (size_t i = 0; i < want.size(); ++i)
    want[i] = float(sums[i]) + (c.accumulate ? before[i] : 0);
  for (Dtype dtype : {Dtype::BF16, Dtype::F16})
    for (Dtype outDtype : {dtype, Dtype::F32})
      for (int threads : {1, 3}) {
        op.dtype = dtype, op.outDtype = outDtype;
        std::vector<char> left = encode(lhs, dtype), right = encode(rhs, dtype),
                          out = encode(before, outDtype);
        // The CPU does not support a 16-bit bias.
        bool biased = c.bias && (outDtype == Dtype::F32 || testTarget() != "cpu");
        std::vector<char> added = encode(bias, outDtype);
        DeviceFixture(threads).run(op, {left, right, out, biased ? TestBuffer(added) : nullptr},
                                   c.accumulate);
        std::vector<float> biasedSums = want;
        for (size_t i = 0; biased && i < biasedSums.size(); ++i)
          biasedSums[i] += bias[i % size_t(c.n)];
        SCOPED_TRACE(testing::Message() << dtypeName(dtype) << " to " << dtypeName(outDtype) << ", "
                                        << threads << " threads");
        if (usesNvidia() && outDtype == dtype && (biased || c.accumulate)) {
          constexpr float maxAdded = 2 * 8; // a bias and an earlier value are each at most 8
          ASSERT_LE(worstOfTwoRoundings(decode(out, outDtype), biasedSums, maxAdded, dtype), 1);
        } else {
          ASSERT_EQ(decode(out, outDtype), roundTo(biasedSums, outDtype));
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Matmul,
                         testing::Values(MatmulCase{1, 300, 40, 50, false, false, false, false},
                                         MatmulCase{1, 300, 40, 50, false, true, false, true},
                                         MatmulCase{1, 400, 33, 70, true, false, true, false},
                                         MatmulCase{1, 5, 1100, 20, false, true, true, true},
                                         MatmulCase{3, 17, 9, 8, true, true, false, false},
                                         MatmulCase{1, 1500, 400, 30, false, true, false, true},
                                         MatmulCase{1, 390, 1700, 20, true, false, true, false},
                                         MatmulCase{1, 384, 1040, 1100, true, false, false, false},
                                         MatmulCase{1, 384, 1040, 1100, true, false, true, false},
                                         MatmulCase{1, 1040, 384, 800, true, true, true, false},
                                         MatmulCase{1, 530, 1100, 900, true, true, true, true},
                                         MatmulCase{1, 530, 1100, 900, true, false, false, true},
                                         MatmulCase{1, 1100, 70, 1000, true, false, true, false},
                                         MatmulCase{2, 300, 67, 385, true, true, true, false},
                                         MatmulCase{1, 130, 140, 3000, true, true, false, false},
                                         MatmulCase{1, 1, 1, 1, false, false, false, false}));

/// Checks the bias gradient of one operand of a matmul. On a GPU, cuBLASLt's epilogue computes the
/// bias gradient, or a matmul with ones if the epilogue is missing. The operands are whole numbers,
/// so the sums are exact. The bias gradient is set, even if the matmul accumulates.
static void checkBiasGradient(const MatmulCase &c, Dtype dtype, int summed) {
  std::vector<float> lhs = randomIntegers(c.m * c.k, 1), rhs = randomIntegers(c.k * c.n, 2),
                     before = randomIntegers(c.m * c.n, 3), want = before;
  MatmulOp op;
  op.dtype = dtype, op.summed = summed;
  op.m = c.m, op.n = c.n, op.k = c.k;
  op.lhs = {0, 0, c.lhsTransposed ? 1 : c.k, c.lhsTransposed ? c.m : 1};
  op.rhs = {0, 0, c.rhsTransposed ? 1 : c.n, c.rhsTransposed ? c.k : 1};
  op.out = {0, 0, c.n, 1};
  std::vector<float> wantGradient(op.countBiasGrad()), gradient(op.countBiasGrad(), 7);
  auto at = [&](int64_t i, int64_t j, int64_t k) {
    return std::pair(lhs[i * op.lhs[2] + k * op.lhs[3]], rhs[k * op.rhs[2] + j * op.rhs[3]]);
  };
  for (int64_t k = 0; k < c.k; ++k) {
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j)
        want[i * c.n + j] += at(i, j, k).first * at(i, j, k).second;
    for (int64_t i = 0; i < op.countBiasGrad(); ++i)
      wantGradient[i] += summed == MatmulOp::Lhs ? at(i, 0, k).first : at(0, i, k).second;
  }
  std::vector<char> left = encode(lhs, dtype), right = encode(rhs, dtype);
  DeviceFixture().run(op, {left, right, before, nullptr, gradient}, /*accumulate=*/true);
  EXPECT_EQ(before, want);
  EXPECT_EQ(gradient, wantGradient);
}

TEST(Matmul, ComputesABiasGradient) {
  for (const char *offered : {"1", "0"}) {
    Environment environment("PSRT_FAKE_SUMS", offered);
    for (Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16})
      for (int summed : {MatmulOp::Lhs, MatmulOp::Rhs})
        for (bool transposed : {false, true}) {
          SCOPED_TRACE(testing::Message() << offered << dtypeName(dtype) << summed << transposed);
          checkBiasGradient({1, 9, 14, 33, transposed, transposed, true, false}, dtype, summed);
          checkBiasGradient({1, 1, 5, 3, !transposed, transposed, true, false}, dtype, summed);
        }
  }
}

/// The way in which a matmul is split into pieces affects the last bits of the result. The split
/// may depend on the number of threads, but not on timing.
TEST(Matmul, GivesTheSameBitsAgain) {
  constexpr int64_t m = 1700, n = 420, k = 96;
  std::vector<float> lhs = randomValues(m * k, 1), rhs = randomValues(k * n, 2), one(m * n),
                     three(m * n), again(m * n);
  MatmulOp op;
  op.m = m, op.n = n, op.k = k;
  op.lhs = {0, 0, k, 1}, op.rhs = {0, 0, n, 1}, op.out = {0, 0, n, 1};
  DeviceFixture(1).run(op, {lhs, rhs, one, nullptr});
  DeviceFixture(3).run(op, {lhs, rhs, three, nullptr});
  DeviceFixture(3).run(op, {lhs, rhs, again, nullptr});
  EXPECT_EQ(three, again);
  for (int64_t i = 0; i < m * n; ++i)
    ASSERT_NEAR(one[i], three[i], 1e-5 * std::sqrt(double(k)) * 4);
}

TEST(Embedding, GathersRowsAndZeroesForeignOnes) {
  std::vector<float> table = randomValues(4 * 3, 1), out(5 * 3, 9);
  std::vector<int64_t> indices = {2, 5, 3, 6, 0};
  int64_t first = 2;
  EmbeddingOp op;
  op.count = 5, op.width = 3, op.rows = 4;
  DeviceFixture().run(op, {table, indices, out, &first});
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 3; ++j) {
      int64_t row = indices[i] - first;
      EXPECT_EQ(out[i * 3 + j], row >= 0 && row < 4 ? table[row * 3 + j] : 0);
    }
}

TEST(Embedding, GradientAddsInOrderAndSkipsPadding) {
  std::vector<float> grad = randomValues(6 * 3, 1), out(40 * 3, 9), again(40 * 3, 9);
  std::vector<int64_t> indices = {2, 5, 2, 39, 2, 5};
  EmbeddingOp op;
  op.grad = true, op.count = 6, op.width = 3, op.rows = 40, op.paddingIndex = 39;
  DeviceFixture(1).run(op, {grad, indices, out, nullptr});
  DeviceFixture(3).run(op, {grad, indices, again, nullptr});
  EXPECT_EQ(out, again);
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_EQ(out[2 * 3 + j], (grad[j] + grad[6 + j]) + grad[12 + j]);
    EXPECT_EQ(out[39 * 3 + j], 0);
    EXPECT_EQ(out[7 * 3 + j], 0);
  }
  DeviceFixture().run(op, {grad, indices, out, nullptr}, /*accumulate=*/true);
  EXPECT_NEAR(out[2 * 3], 2 * again[2 * 3], 1e-5);
}

TEST(Embedding, GathersRowsOfNarrowFloats) {
  std::vector<float> values = randomIntegers(4 * 3, 1);
  std::vector<int32_t> indices = {3, 0, 9};
  std::vector<char> table = encode(values, Dtype::BF16), out(3 * 3 * 2, 1);
  EmbeddingOp op;
  op.dtype = Dtype::BF16, op.indexDtype = Dtype::I32;
  op.count = 3, op.width = 3, op.rows = 4;
  DeviceFixture().run(op, {table, indices, out, nullptr});
  std::vector<float> found = decode(out, Dtype::BF16);
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_EQ(found[j], values[9 + j]);
    EXPECT_EQ(found[3 + j], values[j]);
    EXPECT_EQ(found[6 + j], 0);
  }
}

/// Many indices refer to a few rows. If sums were rounded to 16 bits after each addition, they
/// would stop growing.
TEST(Embedding, GradientOfNarrowFloatsIsRoundedOnce) {
  constexpr int64_t count = 3000, width = 19, rows = 6, padding = 4, first = 100;
  std::vector<float> grad = randomIntegers(count * width, 1),
                     before = randomIntegers(rows * width, 2);
  for (float &x : grad)
    x += 8;
  std::vector<int64_t> indices(count);
  for (int64_t i = 0; i < count; ++i)
    indices[i] = first + i * i % 8; // some rows are on other ranks
  EmbeddingOp op;
  op.grad = true, op.count = count, op.width = width, op.rows = rows;
  op.paddingIndex = first + padding;
  for (bool accumulate : {false, true}) {
    std::vector<float> want = accumulate ? before : std::vector<float>(before.size());
    for (int64_t i = 0; i < count; ++i)
      if (int64_t row = indices[i] - first; row < rows && row != padding)
        for (int64_t j = 0; j < width; ++j)
          want[row * width + j] += grad[i * width + j];
    for (Dtype dtype : {Dtype::BF16, Dtype::F16})
      for (Dtype outDtype : {dtype, Dtype::F32})
        for (int threads : {1, 3}) {
          op.dtype = dtype, op.outDtype = outDtype;
          std::vector<char> values = encode(grad, dtype), out = encode(before, outDtype);
          int64_t offset = first;
          DeviceFixture(threads).run(op, {values, indices, out, &offset}, accumulate);
          EXPECT_EQ(decode(out, outDtype), roundTo(want, outDtype))
              << dtypeName(dtype) << " to " << dtypeName(outDtype);
        }
  }
}

//===--- rows of 16-bit floats --------------------------------------------===//

TEST(NarrowFloat, EveryOneIsWidened) {
  std::vector<uint16_t> all(0x10000);
  std::iota(all.begin(), all.end(), 0);
  for (Dtype dtype : {Dtype::BF16, Dtype::F16}) {
    std::vector<float> wide(all.size());
    widen(dtype, all.data(), wide.data(), all.size());
    for (uint32_t i = 0; i < all.size(); ++i) {
      float want = dtype == Dtype::BF16 ? fromBfloat16(i) : fromHalf(i);
      ASSERT_EQ(castBits<uint32_t>(wide[i]), castBits<uint32_t>(want)) << dtypeName(dtype) << i;
    }
  }
}

/// Tests numbers of all magnitudes, ties and special values, in rows whose length is not a multiple
/// of the vector length.
TEST(NarrowFloat, RowsAreRoundedAsSingleNumbersAre) {
  std::mt19937 generator(1);
  std::vector<float> values = {0.0f,  -0.0f, INFINITY, -INFINITY, NAN,
                               65519, 65520, 0x1p-25f, 0x1.8p-25f};
  for (uint32_t i = 0; i < 300'000; ++i)
    values.push_back(castBits<float>(uint32_t(generator())));
  // Midpoints between neighboring 16-bit floats, and the f32 numbers next to the midpoints.
  for (uint32_t i = 0; i < 0x10000; ++i) {
    for (int32_t off : {-1, 0, 1}) {
      values.push_back(castBits<float>((i << 16 | 0x8000) + off));
      values.push_back(castBits<float>(castBits<uint32_t>(fromHalf(i)) + 0x1000 + off));
    }
  }
  for (Dtype dtype : {Dtype::BF16, Dtype::F16})
    for (size_t n : {values.size(), size_t(37), size_t(16), size_t(3)}) {
      std::vector<uint16_t> rounded(n + 1, 0xabcd);
      narrow(values.data(), dtype, rounded.data(), n);
      EXPECT_EQ(rounded[n], 0xabcd);
      for (size_t i = 0; i < n; ++i)
        ASSERT_EQ(rounded[i], dtype == Dtype::BF16 ? toBfloat16(values[i]) : toHalf(values[i]))
            << dtypeName(dtype) << " of " << values[i];
      std::vector<float> inPlace(values.begin(), values.begin() + n);
      narrow(inPlace.data(), dtype, inPlace.data(), n);
      EXPECT_EQ(std::memcmp(inPlace.data(), rounded.data(), n * 2), 0);
    }
}
