// The thread pool, matmul and embedding against plain loops in f64.
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/device/cpu/ThreadPool.h"
#include <gtest/gtest.h>

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

TEST_P(Matmul, EqualsPlainLoops) {
  MatmulCase c = GetParam();
  std::vector<float> lhs = randomValues(c.b * c.m * c.k, 1), rhs = randomValues(c.b * c.k * c.n, 2);
  std::vector<float> out = randomValues(c.b * c.m * c.n, 3), bias = randomValues(c.n, 4),
                     before = out;
  MatmulOp op;
  op.batch = {1, c.b};
  op.m = c.m, op.n = c.n, op.k = c.k;
  op.lhs = {0, c.m * c.k, c.lhsTransposed ? 1 : c.k, c.lhsTransposed ? c.m : 1};
  op.rhs = {0, c.k * c.n, c.rhsTransposed ? 1 : c.n, c.rhsTransposed ? c.k : 1};
  op.out = {0, c.m * c.n, c.n, 1};
  DeviceFixture().run(op, {lhs.data(), rhs.data(), out.data(), c.bias ? bias.data() : nullptr},
                      c.accumulate);
  double worst = 0;
  for (int64_t b = 0; b < c.b; ++b)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        int64_t at = (b * c.m + i) * c.n + j;
        double sum = (c.accumulate ? before[at] : 0) + (c.bias ? bias[j] : 0);
        for (int64_t k = 0; k < c.k; ++k)
          sum += double(lhs[b * op.lhs[1] + i * op.lhs[2] + k * op.lhs[3]]) *
                 rhs[b * op.rhs[1] + k * op.rhs[2] + j * op.rhs[3]];
        worst = std::max(worst, std::fabs(sum - out[at]));
      }
  EXPECT_LT(worst, 1e-5 * std::sqrt(double(c.k)) * 4);
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

/// The pieces, and with them the last bits, may depend on the number of threads, on nothing else.
TEST(Matmul, GivesTheSameBitsAgain) {
  constexpr int64_t m = 1700, n = 420, k = 96;
  std::vector<float> lhs = randomValues(m * k, 1), rhs = randomValues(k * n, 2), one(m * n),
                     three(m * n), again(m * n);
  MatmulOp op;
  op.m = m, op.n = n, op.k = k;
  op.lhs = {0, 0, k, 1}, op.rhs = {0, 0, n, 1}, op.out = {0, 0, n, 1};
  DeviceFixture(1).run(op, {lhs.data(), rhs.data(), one.data(), nullptr});
  DeviceFixture(3).run(op, {lhs.data(), rhs.data(), three.data(), nullptr});
  DeviceFixture(3).run(op, {lhs.data(), rhs.data(), again.data(), nullptr});
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
  DeviceFixture().run(op, {table.data(), indices.data(), out.data(), &first});
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
  DeviceFixture(1).run(op, {grad.data(), indices.data(), out.data(), nullptr});
  DeviceFixture(3).run(op, {grad.data(), indices.data(), again.data(), nullptr});
  EXPECT_EQ(out, again);
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_EQ(out[2 * 3 + j], (grad[j] + grad[6 + j]) + grad[12 + j]);
    EXPECT_EQ(out[39 * 3 + j], 0);
    EXPECT_EQ(out[7 * 3 + j], 0);
  }
  DeviceFixture().run(op, {grad.data(), indices.data(), out.data(), nullptr}, /*accumulate=*/true);
  EXPECT_NEAR(out[2 * 3], 2 * again[2 * 3], 1e-5);
}
