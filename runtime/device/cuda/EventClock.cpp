// Converts events to host times.
#include "runtime/device/cuda/EventClock.h"
#include <chrono>

namespace psrt::cuda {

void EventClock::mark() {
  if (used == 0) {
    stream->synchronize();
    if (events.empty())
      events.emplace_back(stream->getGpu(), /*timed=*/true);
    base =
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    events[used++].record(*stream);
  }
  if (used == events.size())
    events.emplace_back(stream->getGpu(), /*timed=*/true);
  events[used++].record(*stream);
}

double EventClock::timeOf(const Event &event) const {
  const Gpu &gpu = *stream->getGpu();
  float milliseconds = 0;
  gpu.check(gpu.getDriver().eventElapsedTime(&milliseconds, events[0].get(), event.get()),
            "to measure elapsed time");
  return base + milliseconds * 1e-3;
}

std::vector<double> EventClock::take() {
  std::vector<double> times;
  if (used == 0)
    return times;
  stream->synchronize();
  for (size_t i = 1; i < used; ++i)
    times.push_back(timeOf(events[i]));
  used = 0;
  return times;
}

} // namespace psrt::cuda
