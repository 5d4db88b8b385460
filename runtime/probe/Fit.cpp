// Fits rates, links and slowdowns, and prints quantities.
#include "runtime/probe/Fit.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cmath>
#include <map>

namespace psrt {

double findMedian(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

FittedRate fitRate(const std::vector<Sample> &samples) {
  FittedRate result;
  std::map<int, std::vector<Sample>> decades;
  for (const Sample &sample : samples) {
    result.peak = std::max(result.peak, sample.work / sample.seconds);
    decades[int(std::floor(std::log10(sample.work)))].push_back(sample);
  }
  for (const auto &[decade, members] : decades) {
    double logarithms = 0;
    std::vector<double> shares;
    for (const Sample &sample : members) {
      logarithms += std::log(sample.work);
      shares.push_back(sample.work / sample.seconds / result.peak);
    }
    result.efficiency.push_back(
        {std::exp(logarithms / double(members.size())), std::min(1.0, findMedian(shares))});
  }
  return result;
}

/// Returns the sum of log(predicted time / measured time) squared over all samples.
static double getError(const std::vector<Sample> &samples, double latency, double slope) {
  double error = 0;
  for (const Sample &sample : samples) {
    double logarithm = std::log((latency + slope * sample.work) / sample.seconds);
    error += logarithm * logarithm;
  }
  return error;
}

FittedLink fitLink(const std::vector<Sample> &samples) {
  auto isLess = [](const Sample &a, const Sample &b) { return a.work < b.work; };
  auto [smallest, largest] = std::minmax_element(samples.begin(), samples.end(), isLess);
  double latency = smallest->seconds, slope = largest->seconds / largest->work;
  if (smallest->work == largest->work)
    return {0, 1 / slope};
  double best = getError(samples, latency, slope);
  // A compass search in the logarithms of latency and slope.
  for (double step = 4; step > 1.0001;) {
    bool isBetter = false;
    for (auto [l, s] : {std::pair{step, 1.0}, {1 / step, 1.0}, {1.0, step}, {1.0, 1 / step}}) {
      double error = getError(samples, latency * l, slope * s);
      if (error < best * (1 - 1e-9)) {
        best = error, latency *= l, slope *= s, isBetter = true;
        break;
      }
    }
    if (!isBetter)
      step = std::sqrt(step);
  }
  constexpr double kMin = 1e-9; // seconds; every real link has a higher latency
  return {latency < kMin ? 0 : latency, 1 / slope};
}

void makeAscending(std::vector<Sample> &samples) {
  std::sort(samples.begin(), samples.end(),
            [](const Sample &a, const Sample &b) { return a.work < b.work; });
  for (size_t i = 1; i < samples.size(); ++i)
    samples[i].seconds = std::max(samples[i].seconds, samples[i - 1].seconds);
}

double fitSlowdown(double matmul, double collective, double both) {
  double longer = std::max(matmul, collective), shorter = std::min(matmul, collective);
  return std::clamp(1 + (both - longer) / shorter, 1.0, 2.0);
}

std::string printQuantity(double value, const char *unit) {
  struct Prefix {
    const char *text;
    double factor;
  };
  static constexpr Prefix kSmall[] = {{"", 1}, {"m", 1e-3}, {"u", 1e-6}, {"n", 1e-9}};
  static constexpr Prefix kLarge[] = {{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}};
  bool isTime = std::string(unit) == "s";
  const Prefix *begin = isTime ? std::begin(kSmall) : std::begin(kLarge);
  const Prefix *last = (isTime ? std::end(kSmall) : std::end(kLarge)) - 1;
  // Chooses the largest prefix for which the number, rounded to four digits, is at least 1.
  constexpr double kRounding = 1 - 0.5e-4;
  const Prefix *prefix = std::find_if(
      begin, last, [&](const Prefix &each) { return value >= each.factor * kRounding; });
  return format("%.4g%s%s", value / prefix->factor, prefix->text, unit);
}

std::string printBytes(int64_t bytes) {
  constexpr int64_t kKibi = 1024, kMebi = kKibi * kKibi;
  if (bytes > 0 && bytes % kMebi == 0)
    return format("%lldMiB", (long long)(bytes / kMebi));
  if (bytes > 0 && bytes % kKibi == 0)
    return format("%lldKiB", (long long)(bytes / kKibi));
  return format("%lldB", (long long)bytes);
}

} // namespace psrt
