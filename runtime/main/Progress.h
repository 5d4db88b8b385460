// Shows the progress of training: a bar on a terminal, plain lines elsewhere.
#ifndef PSRT_MAIN_PROGRESS_H
#define PSRT_MAIN_PROGRESS_H

#include "runtime/core/EnumNames.h"
#include <cstdint>
#include <string>

namespace psrt {

/// Returns the seconds of the steady clock.
double steadySeconds();

/// How progress is shown. Auto: a bar if standard output is a terminal that is not dumb (TERM), and
/// no MPI launcher started this process; else lines.
enum class ProgressStyle : uint8_t { Auto, Bar, Lines, None };

template <> struct EnumNames<ProgressStyle> {
  static constexpr const char *what = "progress";
  static constexpr EnumName<ProgressStyle> table[] = {{ProgressStyle::Auto, "auto"},
                                                      {ProgressStyle::Bar, "bar"},
                                                      {ProgressStyle::Lines, "lines"},
                                                      {ProgressStyle::None, "none"}};
};

/// The progress display of one run.
class Progress {
public:
  /// `begin` is the number of steps done before this run. With `shown` = false, nothing is printed.
  Progress(int64_t total, int64_t begin, int64_t samplesPerStep, ProgressStyle style,
           bool shown = true);
  ~Progress();
  /// Shows the progress after `done` steps.
  void update(int64_t done, double loss);
  /// Excludes time that is not spent in steps, such as an evaluation, from samples per second.
  void exclude(double seconds);
  /// Prints a line above the bar.
  void line(const std::string &text);

private:
  std::string makeBar(int64_t done, double loss, double rate, double left) const;
  void write(const std::string &text);
  int64_t total, begin, samplesPerStep;
  bool hasBar, quiet, shown, barShown = false;
  double start, last = 0;
  int64_t lastDone;
};

} // namespace psrt

#endif
