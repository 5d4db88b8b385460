// Tests matmuls with a GELU or its derivative against plain loops in f64.
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/conformance/Environment.h"
#include <gtest/gtest.h>

using namespace psrt;

namespace {

/// A matmul with a GELU or a GELU's derivative, its operands and its expected results.
struct GeluProblem {
  int64_t m = 96, n = 64, k = 20;
  Dtype dtype = Dtype::F32;
  bool bias = false, aux = false, grad = false;

  std::vector<float> lhs, rhs, added, at, inputs; ///< rounded to the dtype

  void draw() {
    lhs = roundTo(randomValues(m * k, 1), dtype), rhs = roundTo(randomValues(k * n, 2), dtype);
    added = roundTo(randomValues(n, 3), dtype), at = roundTo(randomValues(m * n, 4), dtype);
    for (float &x : rhs)
      x *= 0.5f;
    inputs.assign(m * n, 0);
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = bias ? added[i % n] : 0;
      for (int64_t p = 0; p < k; ++p)
        sum += double(lhs[i / n * k + p]) * rhs[p * n + i % n];
      inputs[i] = float(sum);
    }
  }
  static double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  double want(int64_t i) const {
    constexpr double step = 1e-5;
    double slope = (gelu(at[i] + step) - gelu(at[i] - step)) / (2 * step);
    return grad ? inputs[i] * slope : gelu(inputs[i]);
  }
  /// Runs the matmul and checks its results. Returns the notes that the device prints.
  std::string run() {
    draw();
    MatmulOp op;
    op.dtype = op.outDtype = dtype;
    op.activation = grad ? MatmulOp::Activation::GeluGrad : MatmulOp::Activation::Gelu;
    op.m = m, op.n = n, op.k = k;
    op.lhs = {0, 0, k, 1}, op.rhs = {0, 0, n, 1}, op.out = {0, 0, n, 1};
    std::vector<char> left = encode(lhs, dtype), right = encode(rhs, dtype), out(left),
                      biases = encode(added, dtype), other = encode(grad ? at : inputs, dtype);
    out.assign(other.size(), 0x55);
    if (!grad)
      other.assign(other.size(), 0x55);
    TestBuffer ofBias = bias ? TestBuffer(biases) : nullptr, ofAux = nullptr;
    if (aux || grad)
      ofAux = other;
    testing::internal::CaptureStderr();
    DeviceFixture().run(op, {left, right, out, ofBias, nullptr, nullptr, nullptr, ofAux});
    std::string notes = testing::internal::GetCapturedStderr();
    check(decode(out, dtype), decode(other, dtype));
    return notes;
  }
  void check(const std::vector<float> &out, const std::vector<float> &other) const {
    double rounding = dtype == Dtype::F32 ? 1e-6 : dtype == Dtype::F16 ? 0x1p-10 : 0x1p-7;
    double allowed = dtype == Dtype::F32 ? 1e-5 : rounding / 2;
    if (usesNvidia() && grad && dtype == Dtype::F32)
      rounding = 4e-5; // cuBLASLt's derivative has an error of 3e-5
    for (int64_t i = 0; i < m * n; ++i) {
      // cuBLASLt rounds a 16-bit sum before it adds the bias. The GELU increases this error by a
      // factor of less than 1.2, its largest slope.
      bool isRoundedTwice = usesNvidia() && bias && dtype != Dtype::F32;
      double early = isRoundedTwice ? 1.2 * rounding / 2 * std::fabs(inputs[i] - added[i % n]) : 0;
      ASSERT_NEAR(out[i], want(i), allowed + early + 2 * rounding * std::fabs(want(i)))
          << inputs[i];
      if (aux && !grad) {
        ASSERT_NEAR(other[i], inputs[i], 1e-5 + early + rounding * std::fabs(inputs[i]));
      }
    }
  }
};

} // namespace

/// The device uses cuBLASLt's epilogue. If cuBLASLt lacks the epilogue, computes another GELU or
/// does not support the row length, a fallback kernel computes the activation, and the device
/// prints a note.
TEST(Matmul, HasAGeluOrItsDerivative) {
  if (testTarget() == "cpu")
    GTEST_SKIP() << "matmuls on the CPU have no activation";
  for (std::string fake : {"1", "0", "erf"}) {
    Environment environment("PSRT_FAKE_GELU", fake);
    for (Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16})
      for (int kind = 0; kind < 5; ++kind)
        for (int64_t n : {64, 60}) {
          SCOPED_TRACE(testing::Message() << fake << dtypeName(dtype) << kind << ' ' << n);
          GeluProblem problem;
          problem.n = n, problem.dtype = dtype;
          problem.grad = kind == 4, problem.bias = kind % 2, problem.aux = kind / 2 == 1;
          std::string notes = problem.run();
          bool fits = n % 8 == 0 || (!problem.aux && !problem.grad);
          const char *note = !fits           ? "not a multiple of 8 elements"
                             : fake == "0"   ? "cuBLASLt offers no algorithm"
                             : fake == "erf" ? "with the fallback kernels"
                                             : nullptr;
          if (testTarget() != "cuda:replay") // the notes depend on the version of a real cuBLASLt
            continue;
          if (note)
            EXPECT_NE(notes.find(note), std::string::npos) << notes;
          else
            EXPECT_EQ(notes, "");
        }
  }
}
