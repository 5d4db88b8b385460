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
  /// Adds the samples of one measurement: the seconds per run of `runs` runs each. Ignores less
  /// than five samples, which tell little.
  void add(const std::vector<double> &samples, int64_t runs);

  /// Returns the sums as text, for other processes.
  std::string print() const;
  /// Adds the sums of another process. `text` comes from `print`.
  void merge(const std::string &text);

  /// Returns how much longer the samples took than if each had been as fast as the fastest one of
  /// its measurement, as a share. Returns 0 without measurements. Example: the samples 1, 1, 1, 1
  /// and 2 took 0.2 longer.
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
