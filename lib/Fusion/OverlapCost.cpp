// Computes the seconds of matmuls and collectives in chunks.
#include "OverlapCost.h"
#include <algorithm>

namespace parashard::fusion {

MachineFigures findMachine(std::string_view target) {
  // A GPU with NVLink on a 16-lane PCIe bus, at half of its peak rates, which large matmuls reach.
  if (target.starts_with("cuda"))
    return {60e12, 400e12, 2e12, 200e9, 10e-6, 512, 0.9, 25e9};
  // Two cores per rank; messages over loopback or a fast network.
  return {1e11, 1e11, 1e10, 1e9, 50e-6, 64, 0, 5e9};
}

double getOverlapTime(const MachineFigures &machine, const OverlapCase &overlap, int64_t count) {
  double rows = double(overlap.rows);
  double slower = (rows / double(count) + machine.halfRows) / (rows + machine.halfRows);
  double matmul = overlap.matmul * slower,
         collective = overlap.transfer / double(count) + machine.latency;
  double both = matmul + collective - machine.overlap * std::min(matmul, collective);
  double hidden = machine.overlap * std::min(overlap.independent, collective);
  return matmul + double(count - 1) * both + collective - hidden;
}

int64_t chooseChunks(const MachineFigures &machine, const OverlapCase &overlap, int64_t size) {
  constexpr int64_t kMostChunks = 16;
  constexpr double kLeastGain = 0.01;
  int64_t best = 1;
  double whole = getOverlapTime(machine, overlap, 1), least = whole * (1 - kLeastGain);
  for (int64_t count = 2; count <= std::min(size, kMostChunks); ++count) {
    if (size % count != 0)
      continue;
    double time = getOverlapTime(machine, overlap, count);
    if (time < least)
      least = time, best = count;
  }
  return best;
}

} // namespace parashard::fusion
