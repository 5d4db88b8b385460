// Sums the times of repeated runs, and detects disturbances.
#include "runtime/probe/RunSpread.h"
#include "runtime/core/Status.h"
#include "shared/ThisMachine.h"
#include <algorithm>
#include <numeric>
#include <sstream>

namespace psrt {

void RunSpread::add(const std::vector<double> &samples, int64_t runs) {
  constexpr size_t kFewest = 5;
  if (samples.size() < kFewest)
    return;
  total += double(runs) * std::accumulate(samples.begin(), samples.end(), 0.0);
  least +=
      double(runs) * double(samples.size()) * *std::min_element(samples.begin(), samples.end());
}

std::string RunSpread::print() const { return format("%.9g %.9g", total, least); }

void RunSpread::merge(const std::string &text) {
  std::istringstream stream(text);
  double otherTotal = 0, otherLeast = 0;
  if (stream >> otherTotal >> otherLeast) {
    total += otherTotal;
    least += otherLeast;
  }
}

double RunSpread::getShare() const { return least > 0 ? total / least - 1 : 0; }

std::optional<std::string> RunSpread::describeDisturbance() const {
  // On an idle machine with 2 cores, the runs of two ranks take 6 to 16 % longer than the fastest
  // runs. While two busy loops use the cores, the runs take 23 to 134 % longer.
  constexpr double kMax = 0.3;
  if (getShare() <= kMax)
    return std::nullopt;
  return format("%s seem to have used the machine: repeated matmuls took %.0f %% longer than the "
                "fastest ones",
                parashard::kDisturbance, 100 * getShare());
}

} // namespace psrt
