// Converts the times of stream events to the host's clock, for traces.
#ifndef PSRT_DEVICE_CUDA_EVENTCLOCK_H
#define PSRT_DEVICE_CUDA_EVENTCLOCK_H

#include "runtime/device/cuda/Gpu.h"
#include <deque>
#include <vector>

namespace psrt::cuda {

/// Marks are timed events in a stream; a batch is the marks between two calls of take(). Before the
/// first mark of a batch, the host waits for the stream and records a base event. The time of the
/// base event is known on both clocks.
class EventClock {
public:
  explicit EventClock(StreamRef stream) : stream(std::move(stream)) {}
  void mark();
  /// Returns the times of all marks since the last call, in seconds of the host's steady clock.
  std::vector<double> take();
  /// Returns the time of a timed event, which any stream of the GPU may have recorded. The event
  /// must have been recorded after the first mark of the last batch.
  double timeOf(const Event &event) const;

private:
  StreamRef stream;
  std::deque<Event> events; ///< the base event, then the marks; reused by later batches
  size_t used = 0;
  double base = 0; ///< host time of the base event, in seconds
};

} // namespace psrt::cuda

#endif
