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
  /// `shown`: false in a process that leaves all words to another.
  Progress(int64_t total, int64_t samplesPerStep, bool quiet, bool shown = true);
  ~Progress();
  /// After a step: `done` steps are done.
  void update(int64_t done, double loss);
  /// A line of its own, above the bar.
  void line(const std::string &text);

private:
  void drawBar(int64_t done, double loss, double rate, double left);
  int64_t total, samplesPerStep;
  bool quiet, shown, terminal, barShown = false;
  double start, last = 0;
  int64_t lastDone = 0;
};

} // namespace psrt

#endif
