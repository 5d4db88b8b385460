// Times of what a stream does, on the host's clock, for traces.
#ifndef PSRT_DEVICE_CUDA_EVENTCLOCK_H
#define PSRT_DEVICE_CUDA_EVENTCLOCK_H

#include "runtime/device/cuda/Gpu.h"
#include <deque>
#include <vector>

namespace psrt::cuda {

/// Marks are events; the first of a batch is one at which the host waits for the stream, so that
/// the times of both are known.
class EventClock {
public:
  explicit EventClock(StreamRef stream) : stream(std::move(stream)) {}
  void mark();
  /// The times of all marks since the last call, in seconds of the host's steady clock.
  std::vector<double> take();
  /// That of a timed event that any stream of the GPU recorded after the first of the last marks.
  double timeOf(const Event &event) const;

private:
  StreamRef stream;
  std::deque<Event> events; ///< the base, then the marks; used again
  size_t used = 0;
  double base = 0; ///< the time of the base
};

} // namespace psrt::cuda

#endif
