// Defines stream capture, which records work instead of running it, and graphs, which run recorded
// work.
#ifndef PSRT_TESTING_DRIVER_CAPTURE_H
#define PSRT_TESTING_DRIVER_CAPTURE_H

#include "runtime/testing/driver/Streams.h"
#include <thread>

namespace psrt::fake {

/// One recorded call on a captured stream. A mark (Work.h) is a point in a stream's work:
/// cuEventRecord adds a mark, and cuStreamWaitEvent waits for a mark.
struct Step {
  enum class Kind { Run, Record, Wait } kind;
  unsigned lane;          ///< index of the captured stream
  OperationRef operation; ///< set for Run
  unsigned mark = 0;      ///< Record, Wait: number of the mark in the capture
};

/// A captured graph. Each captured stream is a lane; lane 0 is the stream that began the capture.
/// Steps are in call order.
struct Graph {
  std::vector<Step> steps;
  unsigned lanes = 1, marks = 0;
};

/// An executable graph. Every lane except the first has its own stream.
struct GraphExec {
  Device *device = nullptr;
  std::shared_ptr<const Graph> graph;
  std::vector<StreamRef> helpers;
  std::shared_ptr<Mark> last; ///< end of the last launch; the next launch waits for this mark
};

/// A capture in progress.
struct Capture {
  std::thread::id thread; ///< thread that began the capture
  Stream *origin = nullptr;
  std::vector<StreamRef> streams; ///< by lane
  std::vector<Clock> clocks;      ///< by lane: vector clocks (Order.h) whose actors are the lanes
  std::vector<Clock> marks;       ///< by number of the mark: what happens before the mark
  bool invalid = false;           ///< a call was made that captures do not allow
  Graph graph;

  /// Adds a stream to the capture. Returns its lane.
  unsigned join(const StreamRef &stream);
  void run(unsigned lane, OperationRef operation);
  /// Adds a mark at the end of the lane's work so far (cuEventRecord). Returns the mark's number.
  unsigned record(unsigned lane);
  /// Makes a lane wait for a mark. `dropped` is true if the wait is omitted to inject a fault.
  void await(unsigned lane, unsigned mark, bool dropped);
  /// Returns true if all work of the other lanes happens before the end of lane 0.
  bool joined() const;
};

/// An event, with the mark of its last cuEventRecord.
struct Event {
  Device *device = nullptr;
  bool timed = true;
  std::shared_ptr<Mark> mark; ///< null if never recorded, or recorded in a capture
  std::shared_ptr<Capture> capture;
  unsigned captured = 0; ///< number of the mark in `capture`
};

/// Runs or captures an operation of a stream. A kernel gets the memory accesses that the runtime
/// has announced with psrt_fake_access.
CUresult submit(Stream &stream, Operation operation);

/// Returns the capture that the calling thread began, or null.
std::shared_ptr<Capture> captureOfThread();

/// Begin and end captures, as cuStreamBeginCapture and cuStreamEndCapture do.
CUresult beginCapture(const StreamRef &stream);
CUresult endCapture(Stream &stream, std::shared_ptr<Graph> &graph);

std::shared_ptr<GraphExec> instantiate(Device *device, std::shared_ptr<const Graph> graph);
void launch(GraphExec &exec, Stream &stream);

} // namespace psrt::fake

#endif
