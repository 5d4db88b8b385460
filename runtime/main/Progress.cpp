// Draws the progress of training.
#include "runtime/main/Progress.h"
#include "runtime/core/Status.h"
#include "runtime/main/StandardOutput.h"
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <unistd.h>

namespace psrt {

double steadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns whether to draw a bar on standard output. Under mpirun, the standard output of a process
/// is a pseudo terminal even if mpirun's output is a file, so no bar is drawn.
static bool isTerminal() {
  const char *kind = std::getenv("TERM");
  bool isDumb = !kind || !*kind || std::string(kind) == "dumb";
  bool isLaunched = std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE");
  return isatty(STDOUT_FILENO) && !isDumb && !isLaunched;
}

Progress::Progress(int64_t total, int64_t begin, int64_t samplesPerStep, ProgressStyle style,
                   bool shown)
    : total(total), begin(begin), samplesPerStep(samplesPerStep),
      hasBar(style == ProgressStyle::Bar || (style == ProgressStyle::Auto && isTerminal())),
      quiet(style == ProgressStyle::None), shown(shown), start(steadySeconds()), last(start),
      lastDone(begin) {}

Progress::~Progress() {
  if (barShown)
    write("\n");
}

/// Returns a duration as "1:02:03", or as "2:03" below an hour.
static std::string duration(double seconds) {
  long long s = (long long)(seconds + 0.5);
  return s >= 3600 ? format("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60)
                   : format("%lld:%02lld", s / 60, s % 60);
}

void Progress::update(int64_t done, double loss) {
  if (quiet || !shown)
    return;
  double now = steadySeconds();
  // Redraws a bar at most ten times per second. Plain output has about twenty lines per run, and at
  // least one line every 10 s.
  bool mark = done == total || done == begin + 1 || done % std::max<int64_t>(1, total / 20) == 0;
  if (hasBar ? now - last < 0.1 && done != total : !mark && now - last < 10)
    return;
  double rate = double(done - lastDone) * double(samplesPerStep) / std::max(1e-9, now - last);
  double left = (now - start) / double(done - begin) * double(total - done);
  if (hasBar)
    write(makeBar(done, loss, rate, left));
  else
    write(format("step %lld/%lld  loss %.5f  %.1f samples/s  %s left\n", (long long)done,
                 (long long)total, loss, rate, duration(left).c_str()));
  barShown = hasBar && shown;
  last = now;
  lastDone = done;
}

void Progress::exclude(double seconds) {
  start += seconds;
  last += seconds;
}

std::string Progress::makeBar(int64_t done, double loss, double rate, double left) const {
  constexpr int width = 30;
  int filled = int(double(done) / double(std::max<int64_t>(1, total)) * width);
  std::string bar(filled, '#');
  bar.resize(width, '.');
  return format("\r\033[K[%s] step %lld/%lld  loss %.5f  %.1f samples/s  ETA %s", bar.c_str(),
                (long long)done, (long long)total, loss, rate, duration(left).c_str());
}

void Progress::line(const std::string &text) {
  if (shown)
    write((barShown ? "\r\033[K" : "") + text + "\n");
}

/// Writes text. After a failed write, prints nothing more.
void Progress::write(const std::string &text) { shown = shown && writeStandardOutput(text); }

} // namespace psrt
