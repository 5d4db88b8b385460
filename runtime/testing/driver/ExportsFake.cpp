// Defines the functions that only the fake driver has.
#include "runtime/testing/driver/Entry.h"
#include <utility>

namespace psrt::fake {

static std::vector<Access> toAccesses(int count, const PsrtFakeAccess *accesses) {
  std::vector<Access> touched;
  for (int i = 0; i < count; ++i)
    touched.push_back({accesses[i].begin, accesses[i].end, accesses[i].writes != 0});
  return touched;
}

/// Records an access by the calling host thread.
static void hostAccess(const std::string &name, const std::vector<Access> &accesses) {
  Machine &m = machine();
  HostThread &host = hostThread();
  bool fine = m.order.perform(host.actor, host.clock, name, accesses);
  join(m.hostsKnow, host.clock);
  if (!fine && currentDevice())
    currentDevice()->error = CUDA_ERROR_LAUNCH_FAILED;
}

} // namespace psrt::fake

using namespace psrt::fake;

void psrt_fake_access(CUstream handle, const char *name, int count,
                      const PsrtFakeAccess *accesses) {
  std::vector<Access> touched = toAccesses(count, accesses);
  Call call;
  if (!handle)
    return hostAccess(name ? name : "host", touched);
  StreamRef stream = machine().streams.find(handle);
  if (!stream)
    return complain("'%s' was announced on an unknown stream", name ? name : "");
  stream->announcedName = name ? name : "";
  stream->announced = std::move(touched);
  stream->isAnnounced = true;
}

CUresult psrt_fake_enqueue(CUstream handle, const char *name, void (*run)(void *), void *data,
                           void (*release)(void *), int count, const PsrtFakeAccess *accesses) {
  std::shared_ptr<void> owned(data, [release](void *pointer) {
    if (release)
      release(pointer);
  });
  return onStream(handle, [&](Call &, const StreamRef &stream) -> CUresult {
    if (!run)
      return CUDA_ERROR_INVALID_VALUE;
    Operation operation{"kernel", name ? name : "", toAccesses(count, accesses), {}};
    operation.run = [run, owned = std::move(owned)]() -> CUresult {
      run(owned.get());
      return CUDA_SUCCESS;
    };
    return submit(*stream, std::move(operation));
  });
}

void psrt_fake_release(const void *token) {
  const Clock *running = runningClock(); // set in host functions of a stream
  Call call;
  join(machine().tokens[token], running ? *running : hostThread().clock);
}

void psrt_fake_acquire(const void *token) {
  Call call;
  hostKnows(machine().tokens[token]);
}

unsigned long long psrt_fake_waits() {
  Call call;
  return machine().waits;
}
