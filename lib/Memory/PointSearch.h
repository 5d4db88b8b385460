// Finds the cheapest way to choose whose measured memory holds a budget.
#ifndef PARASHARD_LIB_MEMORY_POINTSEARCH_H
#define PARASHARD_LIB_MEMORY_POINTSEARCH_H

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace parashard {

/// Over points in order of the bytes that they keep, as findFrontier has them; how many bytes of
/// memory one takes is told, and grows with those, if not always.
class PointSearch {
public:
  /// `bytes` of each point; the last one was found to take `lastTakes`, which is over the budget.
  PointSearch(std::vector<int64_t> bytes, int64_t budget, int64_t lastTakes);

  /// The point to measure next: the first of all; then, between the last that holds the budget and
  /// the first that does not, by turns where memory falls byte by byte from the latter, where a
  /// line through both meets the budget, and the middle. Nothing when they are neighbours, when
  /// what is left is too little to matter (0.2 % of the budget), and after 10 measurements.
  std::optional<size_t> getNext() const;
  void tell(size_t point, int64_t takes);
  /// The last point that was found to hold the budget.
  std::optional<size_t> getBest() const { return holds; }

private:
  size_t interpolate() const;
  size_t find(int64_t wanted) const;

  std::vector<int64_t> bytes;
  int64_t budget;
  std::map<size_t, int64_t> taken; ///< what was told
  std::optional<size_t> holds;
  size_t over;
};

} // namespace parashard

#endif
