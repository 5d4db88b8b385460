// Searches for the cheapest choice whose measured memory fits a budget.
#ifndef PARASHARD_LIB_MEMORY_POINTSEARCH_H
#define PARASHARD_LIB_MEMORY_POINTSEARCH_H

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace parashard::memory {

/// Searches points: choices of recomputed ops for all segments (FrontierPoint), sorted by the bytes
/// that they keep. The caller measures the memory of a point. Memory usually grows with the kept
/// bytes, but not always.
class PointSearch {
public:
  /// Takes the kept bytes of each point. `lastTakes` is the measured memory of the last point, and
  /// must exceed `budget`.
  PointSearch(std::vector<int64_t> bytes, int64_t budget, int64_t lastTakes);

  /// Returns the next point to measure. Point 0 comes first. Later points are between the last
  /// point that fits the budget and the first one that is too large. Three guesses alternate:
  ///
  /// 1. From the point that is too large, one byte less kept is one byte less memory.
  /// 2. A line through both points meets the budget.
  /// 3. The middle.
  ///
  /// Returns nullopt when the two points are neighbors, when their kept bytes differ by less than
  /// 0.1 % of the budget, and after 12 measurements. Example: points 0 10 20 30 with budget 18.
  /// Point 3 needs 35 and point 0 needs 5. Guess 1 is point 1, since 30 - (35 - 18) = 13 bytes.
  std::optional<size_t> getNext() const;
  void record(size_t point, int64_t takes);
  /// Returns the last point that was measured to fit the budget.
  std::optional<size_t> getBest() const { return lastFitting; }

private:
  size_t interpolate() const;
  size_t find(int64_t wanted) const;

  std::vector<int64_t> bytes;
  int64_t budget;
  std::map<size_t, int64_t> measured; ///< measured memory, by point
  std::optional<size_t> lastFitting;
  size_t firstTooLarge;
};

} // namespace parashard::memory

#endif
