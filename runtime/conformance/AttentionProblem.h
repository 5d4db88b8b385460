// Computes attention, forward and backward, with plain loops in f64. Tests compare devices with
// these results.
#ifndef PSRT_CONFORMANCE_ATTENTIONPROBLEM_H
#define PSRT_CONFORMANCE_ATTENTIONPROBLEM_H

#include "runtime/conformance/DeviceFixture.h"
#include "runtime/device/cpu/RowMath.h"
#include "shared/Philox.h"
#include <limits>
#include <map>

namespace psrt {

struct AttentionCase {
  const char *name;
  int64_t b, h, g, t, s, d;
  bool causal;
  int64_t window;
  bool boolMask, floatMask, padding;
  float dropout;
};

/// The buffers and the reference results of one case. Tensors have the layout [B, T, H, D].
struct Problem {
  AttentionCase c;
  AttentionOp op;
  std::vector<float> q, k, v, dout, out, lse, dq, dk, dv, floatMask;
  std::vector<uint8_t> boolMask, padding;
  std::vector<double> wantOut, wantLse, wantDq, wantDk, wantDv;
  /// For each result element, the sum of the absolute values of its rounded terms. The error of the
  /// element is at most this sum times the relative rounding error of the dtype.
  std::vector<double> roundedOut, roundedDq, roundedDk, roundedDv;

  explicit Problem(const AttentionCase &c, Dtype dtype = Dtype::F32) : c(c) {
    op.dtype = dtype;
    op.b = c.b, op.h = c.h, op.g = c.g, op.t = c.t, op.s = c.s, op.d = c.d;
    op.q = op.out = op.dout = op.dq = {c.t * c.h * c.d, c.d, c.h * c.d};
    op.k = op.v = op.dk = op.dv = {c.s * c.g * c.d, c.d, c.g * c.d};
    op.causal = c.causal, op.window = c.window, op.dropout = c.dropout;
    op.scale = float(1 / std::sqrt(double(c.d)));
    op.key = 0;
    op.globalSize = c.b * c.h * c.t * c.s;
    op.maskDtype = c.floatMask ? dtype : Dtype::Bool;
    op.mask = {0, 0, c.s, 1};
    q = roundTo(randomValues(c.b * c.t * c.h * c.d, 1), dtype);
    k = roundTo(randomValues(c.b * c.s * c.g * c.d, 2), dtype);
    v = roundTo(randomValues(c.b * c.s * c.g * c.d, 3), dtype);
    dout = roundTo(randomValues(q.size(), 4), dtype);
    out.resize(q.size()), dq.resize(q.size()), dk.resize(k.size(), 7), dv.resize(k.size(), 7);
    lse.resize(c.b * c.h * c.t);
    floatMask = roundTo(randomValues(c.t * c.s, 5), dtype);
    for (float &x : floatMask)
      x = x > 1.2f ? -INFINITY : x;
    if (c.floatMask) { // row 0 has no visible key, row 1 only low scores, row 2 some low scores
      std::fill_n(floatMask.begin(), c.s, -INFINITY);
      float lowest = dtype == Dtype::F32    ? std::numeric_limits<float>::lowest()
                     : dtype == Dtype::BF16 ? -0x1.fep127f
                                            : -65504;
      std::fill_n(floatMask.begin() + c.s, c.s, lowest);
      for (int64_t j = 0; j < c.s; j += 2)
        floatMask[2 * c.s + j] = lowest;
    }
    for (float x : randomValues(c.t * c.s, 6))
      boolMask.push_back(x < 0.8f);
    for (float x : randomValues(c.b * c.s, 8))
      padding.push_back(x < 0.8f);
    if (c.boolMask) // row 0 has no visible key
      std::fill_n(boolMask.begin(), c.s, 0);
    compute();
  }

  bool sees(int64_t b, int64_t i, int64_t j) const {
    int64_t diagonal = i + c.s - c.t;
    return (!c.causal || j <= diagonal) && (c.window == 0 || j > diagonal - c.window) &&
           (!c.boolMask || boolMask[i * c.s + j]) &&
           (!c.floatMask || floatMask[i * c.s + j] > -INFINITY) &&
           (!c.padding || padding[b * c.s + j]);
  }

  double keep(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (c.dropout == 0)
      return 1;
    uint64_t counter = ((b * c.h + h) * c.t + i) * c.s + j;
    return philoxUniform(philoxKey(42, 5, 3), counter) >= c.dropout ? 1 / (1 - double(c.dropout))
                                                                    : 0;
  }

  void compute() {
    wantOut.assign(q.size(), 0), wantLse.assign(lse.size(), 0), wantDq.assign(q.size(), 0);
    wantDk.assign(k.size(), 0), wantDv.assign(k.size(), 0);
    roundedOut = wantOut, roundedDq = wantDq, roundedDk = wantDk, roundedDv = wantDv;
    for (int64_t b = 0; b < c.b; ++b)
      for (int64_t h = 0; h < c.h; ++h)
        for (int64_t i = 0; i < c.t; ++i)
          computeRow(b, h, i);
  }

  void computeRow(int64_t b, int64_t h, int64_t i) {
    int64_t g = h / (c.h / c.g), qAt = b * op.q[0] + h * op.q[1] + i * op.q[2];
    auto kAt = [&](int64_t j) { return b * op.k[0] + g * op.k[1] + j * op.k[2]; };
    std::vector<double> p(c.s, -INFINITY), dp(c.s);
    double max = -INFINITY, sum = 0, delta = 0;
    for (int64_t j = 0; j < c.s; ++j)
      if (sees(b, i, j)) {
        double dot = 0;
        for (int64_t d = 0; d < c.d; ++d)
          dot += double(q[qAt + d]) * k[kAt(j) + d];
        p[j] = dot * op.scale + (c.floatMask ? floatMask[i * c.s + j] : 0);
        max = std::max(max, p[j]);
      }
    for (int64_t j = 0; j < c.s; ++j)
      sum += p[j] = max > -INFINITY ? std::exp(p[j] - max) : 0;
    wantLse[(b * c.h + h) * c.t + i] =
        sum > 0 ? std::max(max + std::log(sum), double(lowestScore)) : -INFINITY;
    for (int64_t j = 0; j < c.s; ++j) {
      p[j] = sum > 0 ? p[j] / sum : 0;
      double kept = keep(b, h, i, j);
      for (int64_t d = 0; d < c.d; ++d) {
        wantOut[qAt + d] += p[j] * kept * v[kAt(j) + d];
        wantDv[kAt(j) + d] += p[j] * kept * dout[qAt + d];
        // Both the probability and the sum are rounded: factor 2.
        roundedOut[qAt + d] += 2 * p[j] * kept * std::fabs(v[kAt(j) + d]);
        roundedDv[kAt(j) + d] += 2 * p[j] * kept * std::fabs(dout[qAt + d]);
        dp[j] += kept * dout[qAt + d] * v[kAt(j) + d];
      }
      delta += p[j] * dp[j];
    }
    double roundedDelta = 0; // delta is computed from the rounded out
    for (int64_t d = 0; d < c.d; ++d)
      roundedDelta += std::fabs(dout[qAt + d]) * roundedOut[qAt + d];
    for (int64_t j = 0; j < c.s; ++j)
      for (int64_t d = 0; d < c.d; ++d) {
        double ds = p[j] * (dp[j] - delta) * op.scale;
        wantDq[qAt + d] += ds * k[kAt(j) + d];
        wantDk[kAt(j) + d] += ds * q[qAt + d];
        double rounded = p[j] * op.scale * roundedDelta + 2 * std::fabs(ds);
        roundedDq[qAt + d] += rounded * std::fabs(k[kAt(j) + d]);
        roundedDk[kAt(j) + d] += rounded * std::fabs(q[qAt + d]);
      }
  }

  /// Runs the case on the device that the tests use (testTarget()).
  void run(int threads) {
    DeviceFixture fixture(threads);
    run([&](const AttentionOp &op, const std::vector<TestBuffer> &buffers) {
      fixture.run(op, buffers, false, 5, 3);
    });
  }

  /// Runs forward, then backward, each by a call of runOp(op, buffers). The op must run with key 5,
  /// step 3 and seed 42.
  template <typename RunOp> void run(RunOp runOp) {
    std::vector<TestBuffer> buffers(AttentionOp::Buffers);
    std::vector<char> mask =
        encode(floatMask, op.maskDtype == Dtype::Bool ? op.dtype : op.maskDtype);
    std::map<int, std::vector<char>> stored;
    for (auto [index, values] : tensors())
      buffers[index] = stored[index] = encode(*values, op.dtype);
    buffers[AttentionOp::Lse] = lse;
    buffers[AttentionOp::Mask] = c.floatMask  ? TestBuffer(mask)
                                 : c.boolMask ? TestBuffer(boolMask)
                                              : nullptr;
    buffers[AttentionOp::Padding] = c.padding ? TestBuffer(padding) : nullptr;
    op.grad = false;
    runOp(op, buffers);
    op.grad = true;
    runOp(op, buffers);
    for (auto [index, values] : tensors())
      *values = decode(stored[index], op.dtype);
  }

  /// Returns the tensors whose dtype is that of the op, with their buffer indices.
  std::vector<std::pair<int, std::vector<float> *>> tensors() {
    return {{AttentionOp::Q, &q},       {AttentionOp::K, &k},     {AttentionOp::V, &v},
            {AttentionOp::Dout, &dout}, {AttentionOp::Out, &out}, {AttentionOp::Dq, &dq},
            {AttentionOp::Dk, &dk},     {AttentionOp::Dv, &dv}};
  }
};

/// Returns the largest ratio of an element's error to its bound. The bound is `rounding` times
/// `rounded`, plus the error of f32 sums.
inline double worstRounded(double rounding, const std::vector<float> &found,
                           const std::vector<double> &want, const std::vector<double> &rounded) {
  double result = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == want[i])
      continue;
    double part = std::fabs(found[i] - want[i]) / (rounding * std::fabs(rounded[i]) + 5e-5);
    result = std::isnan(part) ? INFINITY : std::max(result, part);
  }
  return result;
}

inline double worst(const std::vector<float> &found, const std::vector<double> &want) {
  double result = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isinf(want[i]) && found[i] == want[i])
      continue;
    double difference = std::fabs(found[i] - want[i]);
    result = std::isnan(difference) ? INFINITY : std::max(result, difference);
  }
  return result;
}

inline const AttentionCase attentionForms[] = {
    AttentionCase{"plain", 2, 2, 2, 9, 13, 8, false, 0, false, false, false, 0},
    AttentionCase{"causal", 2, 3, 3, 130, 130, 16, true, 0, false, false, false, 0},
    AttentionCase{"grouped", 2, 6, 2, 70, 70, 8, true, 0, false, false, false, 0},
    AttentionCase{"cached", 1, 2, 1, 5, 80, 8, true, 0, false, false, false, 0},
    AttentionCase{"one", 1, 2, 1, 1, 1, 8, true, 0, false, false, false, 0},
    AttentionCase{"token", 2, 4, 2, 1, 33, 8, true, 0, false, false, false, 0},
    AttentionCase{"odd", 2, 3, 3, 67, 67, 7, true, 0, false, false, false, 0},
    AttentionCase{"short", 1, 2, 2, 80, 70, 8, true, 0, false, false, false, 0},
    AttentionCase{"window", 1, 2, 2, 200, 200, 8, true, 37, false, false, false, 0},
    AttentionCase{"band", 1, 2, 2, 150, 150, 8, false, 20, false, false, false, 0},
    AttentionCase{"bool_mask", 2, 2, 2, 70, 70, 8, false, 0, true, false, false, 0},
    AttentionCase{"float_mask", 2, 2, 2, 70, 70, 8, true, 0, false, true, false, 0},
    AttentionCase{"added_mask", 1, 2, 2, 40, 70, 8, false, 0, false, true, false, 0},
    AttentionCase{"padding", 2, 2, 2, 40, 40, 8, true, 0, false, false, true, 0},
    AttentionCase{"dropout", 2, 2, 1, 70, 70, 8, true, 0, false, false, false, 0.3f}};

} // namespace psrt

#endif
