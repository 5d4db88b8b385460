// Defines streams; each is a thread with a queue.
#ifndef PSRT_TESTING_DRIVER_STREAMS_H
#define PSRT_TESTING_DRIVER_STREAMS_H

#include "runtime/testing/driver/Work.h"
#include <deque>
#include <mutex>

namespace psrt::fake {

struct Capture;
struct Device;

/// Guarded by the machine's lock.
struct Stream {
  Device *device = nullptr;
  unsigned actor = 0;
  std::string name;
  Clock clock; ///< happens before the next operation
  std::deque<Work> queue;
  uint64_t pushed = 0, done = 0;
  std::condition_variable arrived, finished;
  bool closing = false; ///< the thread ends once the queue is empty
  /// Accesses of the next operation, as reported to psrt_fake_access.
  std::string announcedName;
  std::vector<Access> announced;
  bool isAnnounced = false;
  /// Set during a capture: the capture and this stream's lane.
  std::shared_ptr<Capture> capture;
  unsigned lane = 0;

  bool idle() const { return done == pushed; }
};
using StreamRef = std::shared_ptr<Stream>;

/// A host thread as an actor of the race detector.
struct HostThread {
  unsigned actor = 0;
  Clock clock;
};
/// Returns the calling thread as an actor. The thread's first use of the driver happens after all
/// work that other host threads have synchronized with by that time.
HostThread &hostThread();
/// Records that all work in `clock` happens before later calls of the calling host thread.
void hostKnows(const Clock &clock);

/// Creates a stream and its thread.
StreamRef openStream(Device *device, std::string name);
/// Ends the stream's thread once the queue is empty.
void closeStream(Stream &stream);

/// The functions below enqueue work immediately; Capture.h handles captures.
void run(Stream &stream, OperationRef operation);
void record(Stream &stream, const std::shared_ptr<Mark> &mark);
void await(Stream &stream, const std::shared_ptr<Mark> &mark);

/// Waits until the stream's work at the time of the call is done; releases `lock` while waiting.
void finish(const StreamRef &stream, std::unique_lock<std::mutex> &lock);

/// Returns the clock of the running operation if the caller is a host function of a stream, else
/// null.
const Clock *runningClock();

} // namespace psrt::fake

#endif
