// Drawing of progress.
#include "runtime/main/Progress.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace psrt {

double steadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Progress::Progress(int64_t total, int64_t samplesPerStep, bool quiet, bool shown)
    : total(total), samplesPerStep(samplesPerStep), quiet(quiet), shown(shown), terminal(isatty(1)),
      start(steadySeconds()), last(start) {}

Progress::~Progress() {
  if (barShown)
    std::printf("\n");
}

static std::string duration(double seconds) {
  long long s = (long long)(seconds + 0.5);
  return s >= 3600 ? format("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60)
                   : format("%lld:%02lld", s / 60, s % 60);
}

void Progress::update(int64_t done, double loss) {
  if (quiet || !shown)
    return;
  double now = steadySeconds();
  // A terminal is redrawn ten times a second; elsewhere about twenty lines a run, and one every 10
  // s.
  bool mark = done == total || done == 1 || done % std::max<int64_t>(1, total / 20) == 0;
  if (terminal ? now - last < 0.1 && done != total : !mark && now - last < 10)
    return;
  double rate = double(done - lastDone) * double(samplesPerStep) / std::max(1e-9, now - last);
  double left = (now - start) / double(done) * double(total - done);
  if (terminal)
    drawBar(done, loss, rate, left);
  else
    std::printf("step %lld/%lld  loss %.5f  %.1f samples/s  %s left\n", (long long)done,
                (long long)total, loss, rate, duration(left).c_str());
  std::fflush(stdout);
  last = now;
  lastDone = done;
}

void Progress::drawBar(int64_t done, double loss, double rate, double left) {
  constexpr int width = 30;
  int filled = int(double(done) / double(std::max<int64_t>(1, total)) * width);
  std::string bar(filled, '#');
  bar.resize(width, '.');
  std::printf("\r\033[K[%s] step %lld/%lld  loss %.5f  %.1f samples/s  ETA %s", bar.c_str(),
              (long long)done, (long long)total, loss, rate, duration(left).c_str());
  barShown = true;
}

void Progress::line(const std::string &text) {
  if (!shown)
    return;
  if (barShown)
    std::printf("\r\033[K");
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

} // namespace psrt
