// What the exported functions have in common: their declarations, and how each begins.
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

/// A call that has come in: the machine's lock, and the device that is current.
struct Call {
  std::unique_lock<std::mutex> lock{machine().mutex};
  Device *device = nullptr;
};

/// The device that is current on the calling thread, or null.
Device *&currentDevice();

/// Runs body(call) where the driver is initialised and the caller is no host function of a stream:
/// the driver API allows no calls there.
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

/// The same where a context is current too.
template <typename Body> CUresult inContext(Body body) {
  return initialised([&](Call &call) -> CUresult {
    call.device = currentDevice();
    if (!call.device || !call.device->retained)
      return CUDA_ERROR_INVALID_CONTEXT;
    return body(call);
  });
}

/// The same for calls that wait or may wait for the device: a thread that captures may not make
/// them, and they end its capture.
template <typename Body> CUresult outsideCapture(Body body) {
  return inContext([&](Call &call) -> CUresult {
    if (auto capture = captureOfThread()) {
      capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return body(call);
  });
}

/// Runs body(call, stream) with the stream that a handle stands for.
template <typename Body> CUresult onStream(CUstream handle, Body body) {
  return inContext([&](Call &call) -> CUresult {
    StreamRef stream = machine().streams.find(handle);
    if (!stream && !handle)
      complain("a null stream was used; the fake has no default stream: create one");
    return stream ? body(call, stream) : CUDA_ERROR_INVALID_HANDLE;
  });
}

/// Waits until nothing runs on the device any more.
void finishDevice(Call &call, Device *device);

} // namespace psrt::fake

#endif
