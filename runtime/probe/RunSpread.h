// Tells from the times of repeated runs whether other programs used the machine.
#ifndef PSRT_PROBE_RUNSPREAD_H
#define PSRT_PROBE_RUNSPREAD_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace psrt {

/// Compares the times of repeated runs with those of the fastest ones. Where another program takes
/// a core for a while, some runs take much longer, and others do not. The median of the runs hides
/// this, so the mean counts.
class RunSpread {
public:
  /// Adds the samples of one measurement. Each sample is the mean time of `runs` runs, in seconds.
  /// Ignores measurements with fewer than five samples, since their spread is not reliable.
  void add(const std::vector<double> &samples, int64_t runs);

  /// Returns the sums as text, for other processes.
  std::string print() const;
  /// Adds the sums of another process. `text` comes from `print`.
  void merge(const std::string &text);

  /// Returns total / least - 1. `total` is the time of all samples. `least` is their time if each
  /// sample were as fast as the fastest one of its measurement. Returns 0 without measurements.
  /// Example: the samples 1, 1, 1, 1 and 2 give 6 / 5 - 1 = 0.2.
  double getShare() const;

  /// Returns a sentence for the user, without a period, if other programs seem to have used the
  /// machine; else nullopt.
  std::optional<std::string> describeDisturbance() const;

private:
  double total = 0; ///< seconds of all samples
  double least = 0; ///< seconds of as many samples, each as fast as the fastest one
};

} // namespace psrt

#endif
