// Launches graphs. Each lane's steps run in order on a stream; marks order the lanes as in the
// capture.
#include "runtime/testing/driver/Capture.h"
#include "runtime/testing/driver/Machine.h"

namespace psrt::fake {

std::shared_ptr<GraphExec> instantiate(Device *device, std::shared_ptr<const Graph> graph) {
  auto exec = std::make_shared<GraphExec>();
  exec->device = device;
  for (unsigned lane = 1; lane < graph->lanes; ++lane)
    exec->helpers.push_back(openStream(device, "device " + std::to_string(device->ordinal) +
                                                   " stream " + std::to_string(++device->streams) +
                                                   " (graph lane " + std::to_string(lane) + ")"));
  exec->graph = std::move(graph);
  return exec;
}

/// Records a mark after the stream's current work.
static std::shared_ptr<Mark> markEnd(Stream &stream) {
  auto mark = std::make_shared<Mark>();
  record(stream, mark);
  return mark;
}

void launch(GraphExec &exec, Stream &stream) {
  const Graph &graph = *exec.graph;
  if (exec.last)
    await(stream, exec.last);
  std::shared_ptr<Mark> begin = markEnd(stream);
  for (const StreamRef &helper : exec.helpers)
    await(*helper, begin);
  std::vector<std::shared_ptr<Mark>> marks(graph.marks);
  for (const Step &step : graph.steps) {
    Stream &lane = step.lane == 0 ? stream : *exec.helpers[step.lane - 1];
    if (step.kind == Step::Kind::Run)
      run(lane, step.operation);
    else if (step.kind == Step::Kind::Wait)
      await(lane, marks[step.mark]);
    else
      marks[step.mark] = markEnd(lane);
  }
  exec.last = markEnd(stream);
}

} // namespace psrt::fake
