// The speed of the ranks at what they do best: the measure of model-flops use.
#include "runtime/main/Parts.h"
#include "runtime/main/Progress.h"
#include <cstdlib>

namespace psrt {
namespace {

constexpr int64_t kSize = 512;
constexpr int kRuns = 3;

/// A square product, row-major. Devices keep what they prepare for an instruction: it stays.
const Instruction &productInstruction() {
  static const Instruction instruction = [] {
    MatmulOp op;
    op.m = op.n = op.k = kSize;
    op.lhs = op.rhs = op.out = {0, 0, kSize, 1};
    Instruction result;
    result.op = op;
    return result;
  }();
  return instruction;
}

double measureRank(Rank &rank) {
  std::vector<float> memory(3 * kSize * kSize + 16, 0.5f);
  auto at = reinterpret_cast<uintptr_t>(memory.data());
  float *base = reinterpret_cast<float *>((at + 63) & ~uintptr_t(63));
  void *buffers[MatmulOp::Buffers] = {base, base + kSize * kSize, base + 2 * kSize * kSize,
                                      nullptr};
  Bound bound;
  bound.instruction = &productInstruction();
  bound.buffers = buffers;
  if (!rank.device->bind(bound))
    return 0;
  rank.device->reserve();
  double best = 0;
  for (int run = 0; run <= kRuns; ++run) { // the first is a warm-up
    rank.comm->barrier();
    double start = steadySeconds();
    bound.run(bound);
    double rate = 2.0 * kSize * kSize * kSize / (steadySeconds() - start);
    best = run > 0 && rate > best ? rate : best;
  }
  return best;
}

} // namespace

double measurePeak(Session &session) {
  std::vector<double> rates(session.getProgram().mesh.size());
  session.parallel([&](Rank &rank) { rates[rank.index] = measureRank(rank); });
  double here = 0, total = 0;
  for (double rate : rates)
    here += rate;
  for (const std::string &text : session.collect(format("%.9g", here)))
    total += std::strtod(text.c_str(), nullptr);
  return total;
}

} // namespace psrt
