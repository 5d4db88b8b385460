// Combines the choices of segments, one segment after another (a knapsack).
#include "ChoiceFrontier.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace parashard;
using namespace parashard::memory;

namespace {
/// The total bytes and cost of the first segments, with one choice per segment.
struct Sum {
  int64_t bytes = 0, cost = 0;
  /// Index of the sum without the last segment, and index of the last segment's choice.
  int before = -1, pick = 0;
};

/// Returns the sums that cost less than every sum with fewer bytes. Sorts them, fewest bytes first.
std::vector<Sum> dropWorse(std::vector<Sum> sums) {
  llvm::stable_sort(sums, [](const Sum &a, const Sum &b) {
    return std::pair(a.bytes, a.cost) < std::pair(b.bytes, b.cost);
  });
  std::vector<Sum> best;
  for (const Sum &sum : sums)
    if (best.empty() || sum.cost < best.back().cost)
      best.push_back(sum);
  return best;
}

/// Keeps the first sum, and the last sum of each of `most` equal intervals of bytes.
std::vector<Sum> thin(std::vector<Sum> sums, size_t most) {
  if (sums.size() <= most)
    return sums;
  double step = double(sums.back().bytes - sums.front().bytes + 1) / double(most);
  auto interval = [&](size_t i) { return int64_t((sums[i].bytes - sums[0].bytes) / step); };
  std::vector<Sum> kept = {sums.front()};
  for (size_t i = 1; i < sums.size(); ++i)
    if (i + 1 == sums.size() || interval(i) != interval(i + 1))
      kept.push_back(sums[i]);
  return kept;
}

/// Sorts the picks of equal segments, so that the earlier segments save fewer bytes.
void sortPicks(llvm::ArrayRef<WeighedSegment> segments, std::vector<int> &picks) {
  std::map<std::pair<const void *, int64_t>, std::vector<size_t>> equals;
  for (auto [i, segment] : llvm::enumerate(segments))
    equals[{segment.choices, segment.weight}].push_back(i);
  for (auto &[key, indices] : equals) {
    std::vector<int> sorted;
    for (size_t index : indices)
      sorted.push_back(picks[index]);
    llvm::sort(sorted);
    for (auto [index, pick] : llvm::zip_equal(indices, sorted))
      picks[index] = pick;
  }
}
} // namespace

std::vector<FrontierPoint> memory::findFrontier(llvm::ArrayRef<WeighedSegment> segments,
                                                size_t most) {
  std::vector<std::vector<Sum>> sums = {{Sum()}};
  for (const WeighedSegment &segment : segments) {
    std::vector<Sum> next;
    for (auto [before, sum] : llvm::enumerate(sums.back()))
      for (auto [pick, choice] : llvm::enumerate(*segment.choices))
        next.push_back({sum.bytes + segment.weight * choice.bytes, sum.cost + choice.cost,
                        int(before), int(pick)});
    sums.push_back(thin(dropWorse(std::move(next)), most));
  }
  std::vector<FrontierPoint> points;
  for (const Sum &last : sums.back()) {
    FrontierPoint point{last.bytes, last.cost, std::vector<int>(segments.size())};
    const Sum *sum = &last;
    for (size_t i = segments.size(); i-- > 0; sum = &sums[i][sum->before])
      point.picks[i] = sum->pick;
    sortPicks(segments, point.picks);
    points.push_back(std::move(point));
  }
  return points;
}
