// Creates groups and queues at their first use.
#include "runtime/comm/local/Groups.h"
#include "runtime/core/Status.h"

namespace psrt {

void checkMessage(const Bound &sent, const Bound &other) {
  const auto &message = std::get<MessageOp>(sent.instruction->op);
  const auto &awaited = std::get<MessageOp>(other.instruction->op);
  if (message.bytes != awaited.bytes || message.value != awaited.value ||
      message.microBatch != awaited.microBatch)
    PSRT_FAIL(BadInput,
              "queue \"%s\" sends value %lld of micro-batch %lld (%lld bytes), but value "
              "%lld of micro-batch %lld (%lld bytes) is expected",
              message.queue.c_str(), (long long)message.value, (long long)message.microBatch,
              (long long)message.bytes, (long long)awaited.value, (long long)awaited.microBatch,
              (long long)awaited.bytes);
}

void checkReductions(const std::vector<Arrival *> &parts) {
  const auto &op = std::get<CollectiveOp>(parts[0]->bound->instruction->op);
  for (const Arrival *part : parts)
    if (const auto &other = std::get<CollectiveOp>(part->bound->instruction->op);
        other.counts != op.counts || other.dtype != op.dtype)
      PSRT_FAIL(BadInput,
                "the members of a reduction in queue \"%s\" have tensors of different dtypes or "
                "sizes; compile the model again",
                op.queue.c_str());
}

Groups::Groups(const Mesh &mesh, bool dedicated) : mesh(mesh), dedicated(dedicated) {
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    everyAxis.push_back(int(i));
}

void Groups::abort() {
  state.aborted = true;
  std::lock_guard<std::mutex> lock(mutex);
  for (auto &[key, group] : groups)
    group->barrier.wake();
  for (Waiter &waiter : waiters)
    waiter.wake();
}

void Groups::reset() {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto &[key, group] : groups)
    group->barrier.reset();
  for (auto &[key, queue] : queues)
    queue->reset();
  ++resets;
  state.aborted = false;
}

Group *Groups::getGroup(int rank, const std::vector<int> &axes) {
  std::vector<int> members = mesh.group(rank, axes);
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Group> &group = groups[members];
  if (!group)
    group = std::make_unique<Group>(int(members.size()), dedicated, state);
  return group.get();
}

LocalRendezvous *Groups::getQueue(const std::vector<int> &members, const std::string &name) {
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<LocalRendezvous> &queue = queues[{members, name}];
  if (!queue)
    queue = std::make_unique<LocalRendezvous>(int(members.size()));
  return queue.get();
}

Waiter *Groups::addWaiter() {
  std::lock_guard<std::mutex> lock(mutex);
  return &waiters.emplace_back(state);
}

void AsyncCollectives::prepare(AsyncCollective &part, const std::vector<int> &members, int index,
                               int64_t token, const std::string &queue,
                               LocalRendezvous::Action action) {
  part.queue = groups.getQueue(members, queue);
  part.action = action;
  part.index = index;
  part.token = token;
  part.arrival.waiter = waiter;
}

void AsyncCollectives::start(const AsyncCollective &part, const Bound &bound) {
  if (int now = groups.resets.load(); now != resets) {
    started.clear(); // drops work that a failure has interrupted
    resets = now;
  }
  started.push_back(&part);
  part.arrival.bound = &bound;
  part.queue->arrive(part.index, part.arrival, part.action);
}

} // namespace psrt
