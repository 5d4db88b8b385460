// Searches for the cheapest choice whose measured memory fits a budget.
#ifndef PARASHARD_LIB_MEMORY_POINTSEARCH_H
#define PARASHARD_LIB_MEMORY_POINTSEARCH_H

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace parashard::memory {

/// Searches points in order of their kept bytes (see findFrontier). The memory of a point is
/// measured by the caller. Memory usually grows with the kept bytes, but not always.
class PointSearch {
public:
  /// Takes the kept bytes of each point. The last point was measured to need `lastTakes`, which
  /// exceeds the budget.
  PointSearch(std::vector<int64_t> bytes, int64_t budget, int64_t lastTakes);

  /// Returns the next point to measure. Point 0 comes first. Later points lie between the last
  /// point that fits the budget and the first one that does not. The points alternate between three
  /// guesses. The first assumes that each byte that is not kept saves one byte of memory, counted
  /// from the point that does not fit. The second is where a line through both points meets the
  /// budget. The third is the middle. Returns nullopt when the two points are neighbors, when the
  /// difference does not matter (0.1 % of the budget), and after 12 measurements. Example: points 0
  /// 10 20 30 with budget 18. Point 3 needs 35 and point 0 needs 5; the next guess is point 1,
  /// since 30 - (35 - 18) = 13 bytes.
  std::optional<size_t> getNext() const;
  void record(size_t point, int64_t takes);
  /// Returns the last point that was measured to fit the budget.
  std::optional<size_t> getBest() const { return holds; }

private:
  size_t interpolate() const;
  size_t find(int64_t wanted) const;

  std::vector<int64_t> bytes;
  int64_t budget;
  std::map<size_t, int64_t> taken; ///< measured memory, by point
  std::optional<size_t> holds;
  size_t over;
};

} // namespace parashard::memory

#endif
