// What a user sees while a program trains: a bar on a terminal, plain lines elsewhere.
#ifndef PSRT_MAIN_PROGRESS_H
#define PSRT_MAIN_PROGRESS_H

#include <cstdint>
#include <string>

namespace psrt {

/// Seconds of the steady clock.
double steadySeconds();

class Progress {
public:
  /// `begin`: steps that were done before this run; `style`: "bar", "lines", "none", or "auto": a
  /// bar on a terminal that no launcher shares among processes; `shown`: false in a process that
  /// leaves all words to another.
  Progress(int64_t total, int64_t begin, int64_t samplesPerStep, const std::string &style,
           bool shown = true);
  ~Progress();
  /// After a step: `done` steps are done.
  void update(int64_t done, double loss);
  /// Time that has passed and is not that of steps: an evaluation's.
  void exclude(double seconds);
  /// A line of its own, above the bar.
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
