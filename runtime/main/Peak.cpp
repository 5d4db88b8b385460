// Measures the peak matmul rate of the ranks, the reference for model flops utilization (MFU).
#include "runtime/main/Parts.h"
#include "runtime/main/Progress.h"
#include <cstdlib>

namespace psrt {
namespace {

constexpr int kRuns = 3;

Instruction makeMatmul(int64_t size) {
  MatmulOp op;
  op.m = op.n = op.k = size;
  op.lhs = op.rhs = op.out = {0, 0, size, 1};
  Instruction result;
  result.op = op;
  result.buffers.resize(MatmulOp::Buffers);
  return result;
}

/// Returns an n x n x n f32 matmul, where n is `size`. The instruction is static, since devices use
/// the address of an instruction as a key.
const Instruction &matmulInstruction(int64_t size) {
  static const std::map<int64_t, Instruction> matmuls = {
      {256, makeMatmul(256)}, {512, makeMatmul(512)}, {2048, makeMatmul(2048)}};
  return matmuls.at(size);
}

/// Returns the best floating-point rate of a rank over `kRuns` matmuls.
double measureRank(Rank &rank) {
  int64_t size = rank.device->getPeakMatmulSize(), bytes = size * size * int64_t(sizeof(float));
  std::unique_ptr<RankMemory> memory = rank.device->makeMemory(3 * bytes);
  std::vector<float> values(size * size, 0.5f);
  for (int64_t address : {int64_t(0), bytes, 2 * bytes})
    memory->write(address, values.data(), bytes);
  void *buffers[MatmulOp::Buffers] = {memory->at(0), memory->at(bytes), memory->at(2 * bytes),
                                      nullptr};
  Bound bound;
  bound.instruction = &matmulInstruction(size);
  bound.buffers = buffers;
  if (!rank.device->bind(bound))
    return 0;
  rank.device->reserve();
  double best = 0;
  for (int run = 0; run <= kRuns; ++run) { // the first is a warm-up
    rank.comm->barrier();
    double start = steadySeconds();
    bound.run(bound);
    rank.device->synchronize();
    double rate = 2.0 * double(size) * double(size) * double(size) / (steadySeconds() - start);
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
