// Implements the driver API's streams and graphs.
#include "runtime/testing/driver/Entry.h"

namespace psrt::fake {

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return inContext([&](Call &call) -> CUresult {
    if (!stream || flags & ~unsigned(CU_STREAM_NON_BLOCKING))
      return CUDA_ERROR_INVALID_VALUE;
    std::string name = "device " + std::to_string(call.device->ordinal) + " stream " +
                       std::to_string(++call.device->streams);
    machine().streams.add(openStream(call.device, std::move(name)), *stream);
    return CUDA_SUCCESS;
  });
}

/// Fails for calls that are not allowed on a captured stream, and invalidates the capture.
static CUresult refuseCaptured(Stream &stream) {
  if (!stream.capture)
    return CUDA_SUCCESS;
  stream.capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  return onStream(handle, [&](Call &, const StreamRef &stream) -> CUresult {
    if (CUresult captured = refuseCaptured(*stream))
      return captured;
    closeStream(*stream);
    machine().streams.remove(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return outsideCapture([&](Call &call) -> CUresult {
    StreamRef stream = machine().streams.find(handle);
    if (!stream)
      return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult captured = refuseCaptured(*stream))
      return captured;
    finish(stream, call.lock);
    return stream->device->error;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return outsideCapture([&](Call &) -> CUresult {
    StreamRef stream = machine().streams.find(handle);
    if (!stream)
      return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult captured = refuseCaptured(*stream))
      return captured;
    if (stream->device->error)
      return stream->device->error;
    if (!stream->idle())
      return CUDA_ERROR_NOT_READY;
    hostKnows(stream->clock);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return onStream(handle, [&](Call &, const StreamRef &stream) -> CUresult {
    if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
      complain("the fake supports only thread-local captures, not mode %d", int(mode));
      return CUDA_ERROR_INVALID_VALUE;
    }
    return beginCapture(stream);
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  return onStream(handle, [&](Call &, const StreamRef &stream) -> CUresult {
    if (!graph)
      return CUDA_ERROR_INVALID_VALUE;
    *graph = nullptr;
    std::shared_ptr<Graph> captured;
    CUresult result = endCapture(*stream, captured);
    if (captured)
      machine().graphs.add(std::move(captured), *graph);
    return result;
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph handle, unsigned long long flags) {
  return inContext([&](Call &call) -> CUresult {
    std::shared_ptr<Graph> graph = machine().graphs.find(handle);
    if (!exec || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (!graph)
      return CUDA_ERROR_INVALID_HANDLE;
    if (machine().settings.refusesGraphs)
      return CUDA_ERROR_OUT_OF_MEMORY;
    machine().execs.add(instantiate(call.device, std::move(graph)), *exec);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream streamHandle) {
  return onStream(streamHandle, [&](Call &, const StreamRef &stream) -> CUresult {
    std::shared_ptr<GraphExec> exec = machine().execs.find(handle);
    if (!exec || exec->device != stream->device)
      return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult captured = refuseCaptured(*stream))
      return captured;
    launch(*exec, *stream);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return inContext([&](Call &) -> CUresult {
    std::shared_ptr<GraphExec> exec = machine().execs.find(handle);
    if (!exec)
      return CUDA_ERROR_INVALID_HANDLE;
    for (const StreamRef &helper : exec->helpers)
      closeStream(*helper);
    machine().execs.remove(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  return inContext([&](Call &) -> CUresult {
    if (!machine().graphs.find(handle))
      return CUDA_ERROR_INVALID_HANDLE;
    machine().graphs.remove(handle);
    return CUDA_SUCCESS;
  });
}

} // namespace psrt::fake
