// Detects from the times of repeated runs whether other programs used the machine.
#ifndef PSRT_PROBE_RUNSPREAD_H
#define PSRT_PROBE_RUNSPREAD_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace psrt {

/// Compares the mean time of repeated runs with the time of the fastest runs. While another program
/// uses a core, some runs take much longer, and the other runs do not. The mean shows the long
/// runs; the median would hide them.
class RunSpread {
public:
  /// Adds the samples of one measurement. Each sample is the mean time of `runs` runs, in seconds.
  /// Ignores measurements with fewer than five samples, since their spread is not reliable.
  void add(const std::vector<double> &samples, int64_t runs);

  /// Returns `total` and `least` as text, to send them to another process.
  std::string print() const;
  /// Adds `total` and `least` of another process. `text` comes from `print`.
  void merge(const std::string &text);

  /// Returns total / least - 1. `total` is the time of all samples. `least` is the time that the
  /// samples would take if each were as fast as the fastest sample of its measurement. Returns 0
  /// without measurements. Example: the samples 1, 1, 1, 1 and 2 give 6 / 5 - 1 = 0.2.
  double getShare() const;

  /// Returns a sentence for the user, without a period, if other programs seem to have used the
  /// machine; else nullopt.
  std::optional<std::string> describeDisturbance() const;

private:
  double total = 0; ///< seconds of all samples
  double least = 0; ///< seconds if each sample were as fast as the fastest of its measurement
};

} // namespace psrt

#endif
