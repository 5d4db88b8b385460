// Streams: each is a thread with a queue.
#ifndef PSRT_TESTING_DRIVER_STREAMS_H
#define PSRT_TESTING_DRIVER_STREAMS_H

#include "runtime/testing/driver/Work.h"
#include <deque>
#include <mutex>

namespace psrt::fake {

struct Capture;
struct Device;

/// The machine's lock guards all of it.
struct Stream {
  Device *device = nullptr;
  unsigned actor = 0;
  std::string name;
  Clock clock; ///< what comes before the next operation
  std::deque<Work> queue;
  uint64_t pushed = 0, done = 0;
  std::condition_variable arrived, finished;
  bool closing = false; ///< its thread ends when the queue is empty
  /// What psrt_fake_access said about the next operation.
  std::string announcedName;
  std::vector<Access> announced;
  bool isAnnounced = false;
  /// While it is captured: where to, and as which of the capture's lanes.
  std::shared_ptr<Capture> capture;
  unsigned lane = 0;

  bool idle() const { return done == pushed; }
};
using StreamRef = std::shared_ptr<Stream>;

/// A host thread, as the proof of order sees it.
struct HostThread {
  unsigned actor = 0;
  Clock clock;
};
/// The calling thread. Its first use of the driver comes after all that the others know by then.
HostThread &hostThread();
/// The caller has learned that what `clock` counts is over.
void hostKnows(const Clock &clock);

/// A stream and its thread.
StreamRef openStream(Device *device, std::string name);
/// Lets the stream's thread end once the queue is empty.
void closeStream(Stream &stream);

/// The following give a stream work, now; captures are looked after by Capture.h.
void run(Stream &stream, OperationRef operation);
void record(Stream &stream, const std::shared_ptr<Mark> &mark);
void await(Stream &stream, const std::shared_ptr<Mark> &mark);

/// Waits until what the stream was given before the call is over; gives up `lock` meanwhile.
void finish(const StreamRef &stream, std::unique_lock<std::mutex> &lock);

/// In a host function of a stream: what comes before what follows it. Null elsewhere.
const Clock *runningClock();

} // namespace psrt::fake

#endif
