// Fits the figures of a cluster file to measured times.
#ifndef PSRT_PROBE_FIT_H
#define PSRT_PROBE_FIT_H

#include <cstdint>
#include <string>
#include <vector>

namespace psrt {

/// A measurement: the time of `work` flops or bytes.
struct Sample {
  double work = 0, seconds = 0;
};

/// Returns the median; for an even number of values, the mean of the two middle values. `values`
/// must not be empty.
double findMedian(std::vector<double> values);

/// The share of the peak rate that a matmul of `flops` floating-point operations reaches.
struct EfficiencyPoint {
  double flops, share;
};

/// A rate of matmuls, as in a cluster file.
struct FittedRate {
  double peak = 0; ///< the highest measured rate, in flops per second
  std::vector<EfficiencyPoint> efficiency;
};

/// Fits the rate of matmuls. Each decade of flops gives one point: the geometric mean of the flops
/// of its samples, and the median of their shares of the peak. Example: samples of 2e6, 3e6 and 2e7
/// flops give points at 2.4e6 and 2e7.
FittedRate fitRate(const std::vector<Sample> &samples);

/// The time of a message is latency + bytes / bandwidth.
struct FittedLink {
  double latency = 0, bandwidth = 0;
};

/// Fits a link to the times of messages, by least squares of the logarithms. A predicted time of
/// half the measured time and one of twice the measured time are then equal errors. `samples` must
/// not be empty.
FittedLink fitLink(const std::vector<Sample> &samples);

/// Sorts samples by work. Raises each time to at least the times of samples with less work.
/// Example: 5 us for 1 KiB and 4 us for 32 KiB give 5 us for both.
void makeAscending(std::vector<Sample> &samples);

/// Returns the factor by which a matmul and a collective slow each other down while both run.
/// `matmul` and `collective` are the times of each alone; `both` is the time of both at once.
/// Returns 1 if `both` equals the longer of the two times, and 2 if `both` is at least their sum.
/// Example: (3, 2, 4) gives 1 + (4 - 3) / 2 = 1.5.
double fitSlowdown(double matmul, double collective, double both);

/// Prints a quantity with four digits, in the form of cluster files: 3.35e12 and "B/s" give
/// "3.35TB/s", 7.9e-5 and "s" give "79us".
std::string printQuantity(double value, const char *unit);
/// Prints a number of bytes without rounding: 1024 gives "1KiB", 1020 gives "1020B".
std::string printBytes(int64_t bytes);

} // namespace psrt

#endif
