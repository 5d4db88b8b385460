// Captures a stream and launches the captured graph.
#include "runtime/device/cuda/Recordings.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/Switches.h"
#include <algorithm>
#include <cstdio>

namespace psrt::cuda {

Recordings::Recordings(StreamRef given) : stream(std::move(given)) {
  isOn = readSwitch("PSRT_CUDA_GRAPHS").value_or(true);
}

Recordings::~Recordings() { clear(); }

void Recordings::clear() {
  stream->getGpu()->tryToEnter();
  for (auto &[range, recording] : recordings)
    if (recording.exec)
      stream->getGpu()->getDriver().graphExecDestroy(recording.exec);
  recordings.clear();
}

void Recordings::run(const Bound *first, const Bound *last, const std::function<void()> &enqueue) {
  const Gpu &gpu = *stream->getGpu();
  Recording &recording = recordings[{first, last}];
  if (recording.runs++ == 0)
    recording.isPlain = !isOn || first == last || std::any_of(first, last, [](const Bound &bound) {
      return bound.needsHost;
    });
  else if (!recording.isPlain && !recording.exec) {
    recording.exec = record(enqueue);
    recording.isPlain = !recording.exec;
  }
  if (!recording.exec)
    return enqueue();
  gpu.check(gpu.getDriver().graphLaunch(recording.exec, stream->get()), "to launch a graph");
}

size_t Recordings::count() const {
  return size_t(std::count_if(recordings.begin(), recordings.end(),
                              [](const auto &each) { return each.second.exec != nullptr; }));
}

CUgraph Recordings::capture(const std::function<void()> &enqueue) {
  const Gpu &gpu = *stream->getGpu();
  gpu.check(gpu.getDriver().streamBeginCapture(stream->get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
            "to capture a stream");
  CUgraph graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    gpu.getDriver().streamEndCapture(stream->get(), &graph);
    if (graph)
      gpu.getDriver().graphDestroy(graph);
    throw;
  }
  gpu.check(gpu.getDriver().streamEndCapture(stream->get(), &graph), "to end a capture");
  return graph;
}

CUgraphExec Recordings::record(const std::function<void()> &enqueue) {
  const Gpu &gpu = *stream->getGpu();
  CUgraphExec exec = nullptr;
  try {
    CUgraph graph = capture(enqueue);
    CUresult result = gpu.getDriver().graphInstantiate(&exec, graph, 0);
    gpu.getDriver().graphDestroy(graph);
    gpu.check(result, "to instantiate a captured graph");
  } catch (const Error &error) {
    std::fprintf(stderr,
                 "note: a step runs instruction by instruction instead of as a CUDA graph: %s\n",
                 error.what());
    return nullptr;
  }
  return exec;
}

} // namespace psrt::cuda
