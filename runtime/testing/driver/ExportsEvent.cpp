// Implements the driver API's events.
#include "runtime/testing/driver/Entry.h"

namespace psrt::fake {

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  return inContext([&](Call &call) -> CUresult {
    if (!event || flags & ~3u)
      return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_shared<Event>();
    made->device = call.device;
    made->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    machine().events.add(std::move(made), *event);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent handle) {
  return inContext([&](Call &) -> CUresult {
    if (!machine().events.find(handle))
      return CUDA_ERROR_INVALID_HANDLE;
    machine().events.remove(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent handle, CUstream streamHandle) {
  return onStream(streamHandle, [&](Call &, const StreamRef &stream) -> CUresult {
    std::shared_ptr<Event> event = machine().events.find(handle);
    if (!event || event->device != stream->device)
      return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture && stream->capture->invalid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->mark = nullptr;
    if (stream->capture) {
      event->captured = stream->capture->record(stream->lane);
      return CUDA_SUCCESS;
    }
    event->mark = std::make_shared<Mark>();
    record(*stream, event->mark);
    machine().logLine(*stream, "record");
    return CUDA_SUCCESS;
  });
}

namespace {

/// Makes a stream wait for captured work; the stream is then captured too.
CUresult awaitCaptured(const StreamRef &stream, const Event &event, bool dropped) {
  const std::shared_ptr<Capture> &capture = event.capture;
  if (std::find(machine().captures.begin(), machine().captures.end(), capture) ==
      machine().captures.end())
    return CUDA_ERROR_CAPTURED_EVENT;
  if (stream->capture && stream->capture != capture) {
    stream->capture->invalid = capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (!stream->capture) {
    stream->lane = capture->join(stream);
    stream->capture = capture;
  }
  capture->await(stream->lane, event.captured, dropped);
  return CUDA_SUCCESS;
}

CUresult awaitEvent(const StreamRef &stream, const Event &event, bool dropped) {
  if (event.capture)
    return awaitCaptured(stream, event, dropped);
  if (!event.mark) // never recorded: nothing to wait for
    return CUDA_SUCCESS;
  if (stream->capture) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!dropped)
    await(*stream, event.mark);
  return CUDA_SUCCESS;
}

} // namespace

CUresult cuStreamWaitEvent(CUstream streamHandle, CUevent handle, unsigned flags) {
  return onStream(streamHandle, [&](Call &, const StreamRef &stream) -> CUresult {
    Machine &m = machine();
    std::shared_ptr<Event> event = m.events.find(handle);
    if (flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (!event)
      return CUDA_ERROR_INVALID_HANDLE;
    bool dropped = ++m.waits == m.settings.drop;
    m.logLine(*stream, "wait " + std::to_string(m.waits) + (dropped ? " (dropped)" : ""));
    return awaitEvent(stream, *event, dropped);
  });
}

/// Runs body(call, event) for host calls on an event.
template <typename Body> static CUresult onEvent(CUevent handle, Body body) {
  return outsideCapture([&](Call &call) -> CUresult {
    std::shared_ptr<Event> event = machine().events.find(handle);
    if (!event)
      return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture)
      return CUDA_ERROR_CAPTURED_EVENT;
    return body(call, *event);
  });
}

CUresult cuEventQuery(CUevent handle) {
  return onEvent(handle, [&](Call &, Event &event) -> CUresult {
    if (event.device->error)
      return event.device->error;
    if (!event.mark)
      return CUDA_SUCCESS;
    if (!event.mark->reached)
      return CUDA_ERROR_NOT_READY;
    hostKnows(event.mark->clock);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return onEvent(handle, [&](Call &call, Event &event) -> CUresult {
    if (std::shared_ptr<Mark> mark = event.mark) {
      mark->changed.wait(call.lock, [&] { return mark->reached; });
      hostKnows(mark->clock);
    }
    return event.device->error;
  });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return outsideCapture([&](Call &) -> CUresult {
    std::shared_ptr<Event> first = machine().events.find(start), last = machine().events.find(end);
    if (!milliseconds)
      return CUDA_ERROR_INVALID_VALUE;
    if (!first || !last || !first->timed || !last->timed || !first->mark || !last->mark)
      return CUDA_ERROR_INVALID_HANDLE;
    if (last->device->error)
      return last->device->error;
    if (!first->mark->reached || !last->mark->reached)
      return CUDA_ERROR_NOT_READY;
    auto elapsed = last->mark->time - first->mark->time;
    *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
    return CUDA_SUCCESS;
  });
}

} // namespace psrt::fake
