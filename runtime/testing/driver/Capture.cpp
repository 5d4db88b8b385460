// Records the work of captured streams.
#include "runtime/testing/driver/Capture.h"
#include "runtime/testing/driver/Machine.h"

namespace psrt::fake {

unsigned Capture::join(const StreamRef &stream) {
  streams.push_back(stream);
  clocks.emplace_back();
  graph.lanes = unsigned(streams.size());
  return graph.lanes - 1;
}

void Capture::run(unsigned lane, OperationRef operation) {
  Clock &clock = clocks[lane];
  clock.resize(std::max<size_t>(clock.size(), lane + 1));
  ++clock[lane];
  graph.steps.push_back({Step::Kind::Run, lane, std::move(operation), 0});
}

unsigned Capture::record(unsigned lane) {
  marks.push_back(clocks[lane]);
  unsigned mark = graph.marks++;
  graph.steps.push_back({Step::Kind::Record, lane, nullptr, mark});
  return mark;
}

void Capture::await(unsigned lane, unsigned mark, bool dropped) {
  fake::join(clocks[lane], marks[mark]);
  if (!dropped)
    graph.steps.push_back({Step::Kind::Wait, lane, nullptr, mark});
}

bool Capture::joined() const {
  const Clock &end = clocks[0];
  for (unsigned lane = 1; lane < clocks.size(); ++lane) {
    uint64_t work = clocks[lane].size() > lane ? clocks[lane][lane] : 0;
    if (work > (end.size() > lane ? end[lane] : 0))
      return false;
  }
  return true;
}

std::shared_ptr<Capture> captureOfThread() {
  for (const auto &capture : machine().captures)
    if (capture->thread == std::this_thread::get_id())
      return capture;
  return nullptr;
}

CUresult beginCapture(const StreamRef &stream) {
  if (stream->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  stream->lane = capture->join(stream);
  stream->capture = capture;
  machine().captures.push_back(capture);
  return CUDA_SUCCESS;
}

CUresult endCapture(Stream &stream, std::shared_ptr<Graph> &graph) {
  std::shared_ptr<Capture> capture = stream.capture;
  if (!capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != &stream)
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  for (const StreamRef &captured : capture->streams)
    captured->capture = nullptr;
  std::erase(machine().captures, capture);
  capture->streams.clear();
  if (capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!capture->joined())
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  graph = std::make_shared<Graph>(std::move(capture->graph));
  return CUDA_SUCCESS;
}

/// Adds the accesses that psrt_fake_access has announced for the stream's next operation. Copies
/// and memsets already have their accesses.
static void takeAnnounced(Stream &stream, Operation &operation) {
  if (!stream.announcedName.empty() && stream.announcedName != operation.name)
    operation.name = stream.announcedName + " (" + operation.name + ")";
  if (operation.kind == std::string("kernel"))
    operation.accesses.insert(operation.accesses.end(), stream.announced.begin(),
                              stream.announced.end());
  stream.announcedName.clear();
  stream.announced.clear();
  stream.isAnnounced = false;
}

/// In strict mode, makes the next synchronizing call fail if the kernel's accesses were not
/// announced.
static void checkAnnounced(const Stream &stream, const Operation &operation) {
  bool kernel = operation.kind == std::string("kernel");
  if (!kernel || !machine().settings.strict || stream.isAnnounced || !operation.accesses.empty())
    return;
  complain("kernel '%s' on %s runs without announced accesses (PSRT_FAKE_STRICT)",
           operation.name.c_str(), stream.name.c_str());
  stream.device->error = CUDA_ERROR_LAUNCH_FAILED;
}

CUresult submit(Stream &stream, Operation operation) {
  checkAnnounced(stream, operation);
  takeAnnounced(stream, operation);
  auto shared = std::make_shared<const Operation>(std::move(operation));
  if (!stream.capture) {
    run(stream, std::move(shared));
    return CUDA_SUCCESS;
  }
  if (stream.capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream.capture->run(stream.lane, std::move(shared));
  return CUDA_SUCCESS;
}

} // namespace psrt::fake
