// Compares the replay image's attention with plain f64 loops and with the CPU device.
#include "runtime/conformance/AttentionProblem.h"
#include "runtime/device/cuda/kernels/test/KernelTest.h"

using namespace psrt;
using namespace psrt::cuda;

namespace {

/// Runs an op on the replay image, with the buffers that Problem::run() passes.
void runKernels(const AttentionOp &op, const std::vector<TestBuffer> &given) {
  std::vector<void *> buffers;
  for (const TestBuffer &buffer : given)
    buffers.push_back(buffer.data);
  const int64_t scalars[] = {42, 3, 0};
  std::vector<char> workspace(workspaceBytes(op), 0x55);
  runReplay(launchAttention(op, buffers.data(), scalars, 5, workspace.data()));
}

class KernelAttention : public testing::TestWithParam<AttentionCase> {};

std::vector<AttentionCase> makeForms() {
  std::vector<AttentionCase> forms(std::begin(attentionForms), std::end(attentionForms));
  for (AttentionCase form : {
           AttentionCase{"head_64", 1, 2, 1, 70, 70, 64, true, 0, false, false, false, 0},
           AttentionCase{"head_80", 1, 1, 1, 40, 40, 80, true, 0, false, false, false, 0},
           AttentionCase{"head_128", 1, 2, 2, 70, 70, 128, true, 0, false, false, false, 0.2f},
           AttentionCase{"head_160", 1, 1, 1, 37, 45, 160, false, 0, false, true, false, 0},
           AttentionCase{"head_256", 1, 2, 1, 40, 40, 256, true, 0, false, false, false, 0},
           AttentionCase{"head_250", 1, 1, 1, 20, 35, 250, false, 9, false, false, true, 0},
       })
    forms.push_back(form);
  return forms;
}

} // namespace

TEST_P(KernelAttention, EqualsPlainLoops) {
  Problem problem(GetParam());
  problem.run(runKernels);
  EXPECT_LT(worst(problem.out, problem.wantOut), 2e-5);
  EXPECT_LT(worst(problem.lse, problem.wantLse), 2e-5);
  EXPECT_LT(worst(problem.dq, problem.wantDq), 5e-5);
  EXPECT_LT(worst(problem.dk, problem.wantDk), 5e-5);
  EXPECT_LT(worst(problem.dv, problem.wantDv), 5e-5);
}

TEST_P(KernelAttention, NarrowFloatsDifferByRoundingErrors) {
  for (Dtype dtype : {Dtype::BF16, Dtype::F16})
    for (Dtype maskDtype : {dtype, Dtype::F32}) {
      Problem problem(GetParam(), dtype);
      if (!problem.c.floatMask && maskDtype == Dtype::F32)
        continue;
      if (problem.c.floatMask)
        problem.op.maskDtype = maskDtype;
      problem.run(runKernels);
      EXPECT_LT(worstRounded(0x1p-24, problem.lse, problem.wantLse, problem.wantLse), 1);
      double rounding = roundingOf(dtype);
      EXPECT_LT(worstRounded(rounding, problem.out, problem.wantOut, problem.roundedOut), 1);
      EXPECT_LT(worstRounded(rounding, problem.dq, problem.wantDq, problem.roundedDq), 1);
      EXPECT_LT(worstRounded(rounding, problem.dk, problem.wantDk, problem.roundedDk), 1);
      EXPECT_LT(worstRounded(rounding, problem.dv, problem.wantDv, problem.roundedDv), 1);
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, KernelAttention, testing::ValuesIn(makeForms()),
                         [](const auto &info) { return info.param.name; });

/// Tests that dk and dv are summed in f32 over rows, and over the query heads that share a
/// key/value head (as in runtime/conformance/AttentionTest.cpp).
TEST(KernelAttentionSums, NarrowFloatsAreRoundedOnce) {
  for (Dtype dtype : {Dtype::BF16, Dtype::F16}) {
    Problem problem({"", 1, 6, 2, 300, 64, 8, false, 0, false, false, false, 0}, dtype);
    problem.op.scale = 0;
    problem.dout = randomIntegers(problem.dout.size(), 4);
    problem.compute();
    problem.run(runKernels);
    std::vector<float> want(problem.wantDv.begin(), problem.wantDv.end());
    EXPECT_EQ(problem.dv, roundTo(want, dtype)) << dtypeName(dtype);
    EXPECT_EQ(problem.dk, std::vector<float>(problem.dk.size()));
  }
}

/// Tests the random numbers of a sharded tensor: with counters that are consecutive along a row,
/// and with a shard of several blocks of keys, whose counters are not consecutive.
TEST(KernelAttentionDropout, DrawsTheNumbersOfTheCpu) {
  for (bool runs : {true, false}) {
    AttentionCase c{"", 2, 2, 1, 40, 36, 8, true, 0, false, false, false, 0.4f};
    Problem found(c), want(c);
    for (Problem *problem : {&found, &want}) {
      problem->op.globalSize = 2 * 4 * 40 * 72;
      problem->op.factorSizes = {2, 2, 40, 36};
      problem->op.factorStrides = {4 * 40 * 72, 40 * 72, 72, 1};
      if (!runs) {
        problem->op.factorSizes = {2, 2, 40, 4, 9};
        problem->op.factorStrides = {4 * 40 * 72, 40 * 72, 72, 18, 1};
      }
    }
    int64_t offset = 2 * 40 * 72 + 9;
    found.run([&](const AttentionOp &op, std::vector<TestBuffer> buffers) {
      buffers[AttentionOp::Offset] = &offset;
      runKernels(op, buffers);
    });
    DeviceFixture fixture;
    want.run([&](const AttentionOp &op, std::vector<TestBuffer> buffers) {
      buffers[AttentionOp::Offset] = &offset;
      fixture.run(op, buffers, false, 5, 3);
    });
    for (size_t i = 0; i < want.out.size(); ++i)
      EXPECT_NEAR(found.out[i], want.out[i], 2e-5);
    for (size_t i = 0; i < want.dk.size(); ++i)
      EXPECT_NEAR(found.dk[i], want.dk[i], 5e-5);
  }
}
