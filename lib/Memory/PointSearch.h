// Searches for the cheapest choice whose measured memory fits a budget.
#ifndef PARASHARD_LIB_MEMORY_POINTSEARCH_H
#define PARASHARD_LIB_MEMORY_POINTSEARCH_H

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace parashard::memory {

/// Searches a list of points. A point is one choice of recomputed ops for all segments
/// (`FrontierPoint`). Points are sorted by the bytes that they save for backward. The caller
/// measures the memory of a point. This memory usually grows with the saved bytes, but not always.
class PointSearch {
public:
  /// `bytes` lists the saved bytes of each point. `lastMeasuredBytes` is the measured memory of the
  /// last point, and must exceed `budget`.
  PointSearch(std::vector<int64_t> bytes, int64_t budget, int64_t lastMeasuredBytes);

  /// Returns the next point to measure: first point 0, then points between the largest point that
  /// fits the budget and the smallest point that exceeds it. Three guesses alternate:
  ///
  /// - the saved bytes of the smallest exceeding point, minus the excess of its memory
  /// - linear interpolation between the two points
  /// - bisection
  ///
  /// Example of the first guess: four points save 0, 10, 20 and 30 bytes, and the budget is 18.
  /// Point 0 was measured at 5, point 3 at 35. The wanted bytes are 30 - (35 - 18) = 13, so the
  /// guess is point 1.
  ///
  /// Returns nullopt if point 0 exceeds the budget, or after 12 measurements. Also returns nullopt
  /// if the largest fitting and the smallest exceeding point are neighbors, or if their saved bytes
  /// differ by less than 0.1 % of the budget.
  std::optional<size_t> getNext() const;
  /// Records the measured memory of a point.
  void record(size_t point, int64_t measuredBytes);
  /// Returns the largest point whose measured memory fits the budget; nullopt if there is none.
  std::optional<size_t> getBest() const { return lastFitting; }

private:
  size_t interpolate() const;
  size_t find(int64_t wanted) const;

  std::vector<int64_t> bytes;
  int64_t budget;
  std::map<size_t, int64_t> measured; ///< memory, by point
  std::optional<size_t> lastFitting;
  size_t firstTooLarge;
};

} // namespace parashard::memory

#endif
