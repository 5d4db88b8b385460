// Computes the seconds of matmuls and collectives in chunks.
#include "OverlapCost.h"
#include <algorithm>

namespace parashard::fusion {

double getOverlapTime(const OverlapCase &overlap, int64_t count) {
  double matmul = overlap.matmul(count), collective = overlap.collective(count);
  double both = matmul + collective - overlap.overlap * std::min(matmul, collective);
  double hidden = overlap.overlap * std::min(overlap.independent, collective);
  return matmul + double(count - 1) * both + collective - hidden;
}

int64_t chooseChunks(const OverlapCase &overlap, int64_t size) {
  constexpr int64_t kMaxChunks = 16;
  constexpr double kMinGain = 0.01;
  int64_t best = 1;
  double whole = getOverlapTime(overlap, 1), least = whole * (1 - kMinGain);
  for (int64_t count = 2; count <= std::min(size, kMaxChunks); ++count) {
    if (size % count != 0)
      continue;
    double time = getOverlapTime(overlap, count);
    if (time < least)
      least = time, best = count;
  }
  return best;
}

} // namespace parashard::fusion
