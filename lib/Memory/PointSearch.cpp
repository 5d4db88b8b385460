// Implements regula falsi with bisection over a list of points.
#include "PointSearch.h"
#include <algorithm>

using namespace parashard;
using namespace parashard::memory;

static constexpr int64_t kNegligible = 1000; ///< differences below 1/1000 of the budget are ignored
static constexpr size_t kMaxMeasured = 12;

PointSearch::PointSearch(std::vector<int64_t> bytes, int64_t budget, int64_t lastMeasuredBytes)
    : bytes(std::move(bytes)), budget(budget), firstTooLarge(this->bytes.size() - 1) {
  measured[firstTooLarge] = lastMeasuredBytes;
}

std::optional<size_t> PointSearch::getNext() const {
  if (!measured.contains(0))
    return 0;
  if (!lastFitting || firstTooLarge - *lastFitting <= 1 ||
      bytes[firstTooLarge] - bytes[*lastFitting] < budget / kNegligible ||
      measured.size() > kMaxMeasured)
    return std::nullopt;
  // If the best fitting point fills almost the whole budget, uses only bisection. The peak of this
  // point may be at an op at which the saved values are not live. Its memory then does not depend
  // on the saved bytes, so guesses from these bytes are wrong.
  bool isFilled = budget - measured.at(*lastFitting) < budget / kNegligible;
  size_t turn = isFilled ? 1 : measured.size() % 3;
  size_t next = turn == 1   ? (*lastFitting + firstTooLarge) / 2
                : turn == 2 ? find(bytes[firstTooLarge] - (measured.at(firstTooLarge) - budget))
                            : interpolate();
  return std::clamp(next, *lastFitting + 1, firstTooLarge - 1);
}

size_t PointSearch::interpolate() const {
  int64_t few = measured.at(*lastFitting), many = measured.at(firstTooLarge);
  double part = double(budget - few) / double(many - few);
  return find(int64_t(double(bytes[firstTooLarge] - bytes[*lastFitting]) * part) +
              bytes[*lastFitting]);
}

/// Returns the last point with at most `wanted` saved bytes; 0 if there is none.
size_t PointSearch::find(int64_t wanted) const {
  size_t after = std::upper_bound(bytes.begin(), bytes.end(), wanted) - bytes.begin();
  return std::max<size_t>(after, 1) - 1;
}

void PointSearch::record(size_t point, int64_t measuredBytes) {
  measured[point] = measuredBytes;
  if (measuredBytes <= budget)
    lastFitting = std::max(lastFitting.value_or(0), point);
  else
    firstTooLarge = std::min(firstTooLarge, point);
}
