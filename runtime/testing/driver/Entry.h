// Declares the exported functions and defines their common prologues.
#ifndef PSRT_TESTING_DRIVER_ENTRY_H
#define PSRT_TESTING_DRIVER_ENTRY_H

#include "runtime/testing/driver/Capture.h"
#include "runtime/testing/driver/Fake.h"
#include "runtime/testing/driver/Machine.h"
#include <cstring>
#include <new>

namespace psrt::fake {

#define PSRT_FAKE_DECLARE(name, symbol, arguments)                                                 \
  extern "C" PSRT_FAKE_EXPORT CUresult symbol arguments;
PSRT_CUDA_FUNCTIONS(PSRT_FAKE_DECLARE)
#undef PSRT_FAKE_DECLARE

/// State of a driver call: the machine's lock and the current device.
struct Call {
  std::unique_lock<std::mutex> lock{machine().mutex};
  Device *device = nullptr;
};

/// Returns the current device of the calling thread, or null.
Device *&currentDevice();

/// Runs body(call). Fails if the driver is not initialized or the caller is a host function of a
/// stream, where the driver API does not allow calls.
template <typename Body> CUresult initialised(Body body) {
  if (runningClock())
    return CUDA_ERROR_NOT_PERMITTED;
  Call call;
  if (!machine().initialised)
    return CUDA_ERROR_NOT_INITIALIZED;
  try {
    return body(call);
  } catch (const std::bad_alloc &) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

/// Like initialised(), but also fails without a current context.
template <typename Body> CUresult inContext(Body body) {
  return initialised([&](Call &call) -> CUresult {
    call.device = currentDevice();
    if (!call.device || !call.device->retained)
      return CUDA_ERROR_INVALID_CONTEXT;
    return body(call);
  });
}

/// Like inContext(), for calls that wait or may wait for the device. During a capture, such calls
/// fail and invalidate the thread's capture.
template <typename Body> CUresult outsideCapture(Body body) {
  return inContext([&](Call &call) -> CUresult {
    if (auto capture = captureOfThread()) {
      capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return body(call);
  });
}

/// Runs body(call, stream) with the stream of a handle.
template <typename Body> CUresult onStream(CUstream handle, Body body) {
  return inContext([&](Call &call) -> CUresult {
    StreamRef stream = machine().streams.find(handle);
    if (!stream && !handle)
      complain("the fake has no default stream (null handle); create a stream");
    return stream ? body(call, stream) : CUDA_ERROR_INVALID_HANDLE;
  });
}

/// Waits until all work of the device is done.
void finishDevice(Call &call, Device *device);

} // namespace psrt::fake

#endif
