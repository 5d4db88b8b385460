// Stream capture: work is written down, not run; and graphs, which run what was written down.
#ifndef PSRT_TESTING_DRIVER_CAPTURE_H
#define PSRT_TESTING_DRIVER_CAPTURE_H

#include "runtime/testing/driver/Streams.h"
#include <thread>

namespace psrt::fake {

/// One thing that a captured stream was given.
struct Step {
  enum class Kind { Run, Record, Wait } kind;
  unsigned lane;          ///< which of the captured streams
  OperationRef operation; ///< of Run
  unsigned mark = 0;      ///< of Record and Wait: which record
};

/// What was captured: a lane for each stream, lane 0 for the one that began; steps in the order of
/// the calls.
struct Graph {
  std::vector<Step> steps;
  unsigned lanes = 1, marks = 0;
};

/// A graph that can be launched. Lanes but the first have streams of their own.
struct GraphExec {
  Device *device = nullptr;
  std::shared_ptr<const Graph> graph;
  std::vector<StreamRef> helpers;
  std::shared_ptr<Mark> last; ///< the end of the last launch: launches come one after the other
};

/// A capture that goes on.
struct Capture {
  std::thread::id thread; ///< that began it
  Stream *origin = nullptr;
  std::vector<StreamRef> streams; ///< by lane
  std::vector<Clock> clocks;      ///< by lane; an actor here is a lane
  std::vector<Clock> marks;       ///< by record
  bool invalid = false;           ///< something happened that a capture does not allow
  Graph graph;

  unsigned join(const StreamRef &stream);
  void run(unsigned lane, OperationRef operation);
  unsigned record(unsigned lane);
  /// `dropped`: the wait that is left out to seed a fault.
  void await(unsigned lane, unsigned mark, bool dropped);
  /// Whether all work of the other lanes comes before the end of lane 0.
  bool joined() const;
};

/// What events point to: the last record.
struct Event {
  Device *device = nullptr;
  bool timed = true;
  std::shared_ptr<Mark> mark; ///< null: never recorded, or in a capture
  std::shared_ptr<Capture> capture;
  unsigned captured = 0; ///< which record of the capture
};

/// Gives a stream an operation: to run, or to write down. What was announced goes with it.
CUresult submit(Stream &stream, Operation operation);

/// The capture that the calling thread has begun, or null.
std::shared_ptr<Capture> captureOfThread();

/// Begins and ends captures, as cuStreamBeginCapture and cuStreamEndCapture.
CUresult beginCapture(const StreamRef &stream);
CUresult endCapture(Stream &stream, std::shared_ptr<Graph> &graph);

std::shared_ptr<GraphExec> instantiate(Device *device, std::shared_ptr<const Graph> graph);
void launch(GraphExec &exec, Stream &stream);

} // namespace psrt::fake

#endif
