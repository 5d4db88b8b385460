// Runs the threads of streams and maintains the happens-before relation.
#include "runtime/testing/driver/Streams.h"
#include "runtime/testing/driver/Machine.h"
#include <thread>

namespace psrt::fake {

namespace {

thread_local const Clock *clockOfRunning = nullptr;

/// Sleeps a pseudo-random time of up to `most` microseconds.
void dawdle(unsigned most, uint64_t &random) {
  random = random * 6364136223846793005u + 1442695040888963407u;
  if (most)
    std::this_thread::sleep_for(std::chrono::microseconds((random >> 33) % (most + 1)));
}

/// Runs one entry of the queue. Releases `lock` while an operation runs.
void perform(Stream &stream, Work &work, uint64_t &random, std::unique_lock<std::mutex> &lock) {
  if (work.wait) {
    work.wait->changed.wait(lock, [&] { return work.wait->reached; });
  } else if (work.record) {
    work.record->time = std::chrono::steady_clock::now();
    work.record->reached = true;
    work.record->changed.notify_all();
  } else if (!stream.device->dead) {
    unsigned delay = machine().settings.delay;
    lock.unlock();
    dawdle(delay, random);
    clockOfRunning = &work.clock;
    CUresult result = work.operation->run();
    clockOfRunning = nullptr;
    lock.lock();
    if (result != CUDA_SUCCESS) {
      complain("'%s' on %s failed: %s", work.operation->name.c_str(), stream.name.c_str(),
               codeName(result));
      stream.device->error = result;
      stream.device->dead = true;
    }
  }
}

void serve(StreamRef stream) {
  std::unique_lock lock(machine().mutex);
  uint64_t random = stream->actor;
  while (true) {
    stream->arrived.wait(lock, [&] { return !stream->queue.empty() || stream->closing; });
    if (stream->queue.empty())
      return;
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    perform(*stream, work, random, lock);
    lock.unlock(); // destroying the last reference to an operation runs its release function
    work = {};
    lock.lock();
    ++stream->done;
    stream->finished.notify_all();
  }
}

void push(Stream &stream, Work work) {
  stream.queue.push_back(std::move(work));
  ++stream.pushed;
  stream.arrived.notify_one();
}

} // namespace

const Clock *runningClock() { return clockOfRunning; }

HostThread &hostThread() {
  thread_local HostThread own;
  Machine &m = machine();
  if (own.clock.empty()) {
    own.clock = m.hostsKnow;
    own.actor = m.order.addActor("host thread " + std::to_string(++m.hostThreads));
    own.clock.resize(own.actor + 1);
  }
  if (m.settings.oneHost)
    join(own.clock, m.hostsKnow);
  return own;
}

void hostKnows(const Clock &clock) {
  join(hostThread().clock, clock);
  join(machine().hostsKnow, clock);
}

StreamRef openStream(Device *device, std::string name) {
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->actor = machine().order.addActor(name);
  stream->name = std::move(name);
  std::erase_if(machine().opened, [](const auto &entry) { return entry.expired(); });
  machine().opened.push_back(stream);
  std::thread(serve, stream).detach();
  return stream;
}

void closeStream(Stream &stream) {
  stream.closing = true;
  stream.arrived.notify_one();
}

/// Returns true if all ranges that the operation accesses are allocated; otherwise reports the
/// first that is not.
static bool accessesMemory(const Stream &stream, const Operation &operation) {
  for (const Access &access : operation.accesses)
    if (access.begin > access.end ||
        (access.begin < access.end &&
         !machine().memory.holding(access.begin, access.end - access.begin))) {
      complain("'%s' on %s accesses [0x%llx, 0x%llx), which is in no allocation",
               operation.name.c_str(), stream.name.c_str(), (unsigned long long)access.begin,
               (unsigned long long)access.end);
      return false;
    }
  return true;
}

void run(Stream &stream, OperationRef operation) {
  Machine &m = machine();
  if (!accessesMemory(stream, *operation)) {
    stream.device->error = CUDA_ERROR_ILLEGAL_ADDRESS;
    return;
  }
  join(stream.clock, hostThread().clock);
  m.logLine(stream, *operation);
  if (!m.order.perform(stream.actor, stream.clock, operation->name, operation->accesses))
    stream.device->error = CUDA_ERROR_LAUNCH_FAILED;
  push(stream, {std::move(operation), nullptr, nullptr, stream.clock});
}

void record(Stream &stream, const std::shared_ptr<Mark> &mark) {
  join(stream.clock, hostThread().clock);
  mark->clock = stream.clock;
  push(stream, {nullptr, mark, nullptr, {}});
}

void await(Stream &stream, const std::shared_ptr<Mark> &mark) {
  join(stream.clock, hostThread().clock);
  join(stream.clock, mark->clock);
  push(stream, {nullptr, nullptr, mark, {}});
}

void finish(const StreamRef &stream, std::unique_lock<std::mutex> &lock) {
  uint64_t target = stream->pushed;
  Clock clock = stream->clock;
  stream->finished.wait(lock, [&] { return stream->done >= target; });
  hostKnows(clock);
}

} // namespace psrt::fake
