// Implements regula falsi with bisection over a list of points.
#include "PointSearch.h"
#include <algorithm>

using namespace parashard;
using namespace parashard::memory;

static constexpr int64_t kLittle = 1000; ///< parts of the budget; one part does not matter
static constexpr size_t kMostMeasured = 12;

PointSearch::PointSearch(std::vector<int64_t> bytes, int64_t budget, int64_t lastTakes)
    : bytes(std::move(bytes)), budget(budget), over(this->bytes.size() - 1) {
  taken[over] = lastTakes;
}

std::optional<size_t> PointSearch::getNext() const {
  if (!taken.count(0))
    return 0;
  if (!holds || over - *holds <= 1 || bytes[over] - bytes[*holds] < budget / kLittle ||
      taken.size() > kMostMeasured)
    return std::nullopt;
  bool isFilled =
      budget - taken.at(*holds) <
      budget / kLittle; // memory may now peak elsewhere, so it need not grow with the kept bytes
  size_t turn = isFilled ? 1 : taken.size() % 3;
  size_t next = turn == 1   ? (*holds + over) / 2
                : turn == 2 ? find(bytes[over] - (taken.at(over) - budget))
                            : interpolate();
  return std::clamp(next, *holds + 1, over - 1);
}

size_t PointSearch::interpolate() const {
  int64_t few = taken.at(*holds), many = taken.at(over);
  double part = double(budget - few) / double(many - few);
  return find(int64_t(double(bytes[over] - bytes[*holds]) * part) + bytes[*holds]);
}

/// Returns the last point with at most `wanted` bytes; 0 if there is none.
size_t PointSearch::find(int64_t wanted) const {
  size_t after = std::upper_bound(bytes.begin(), bytes.end(), wanted) - bytes.begin();
  return std::max<size_t>(after, 1) - 1;
}

void PointSearch::record(size_t point, int64_t takes) {
  taken[point] = takes;
  if (takes <= budget)
    holds = std::max(holds.value_or(0), point);
  else
    over = std::min(over, point);
}
