// Manages groups, queues and asynchronous work of ranks that are threads of one process. Backends
// define the communication itself.
#ifndef PSRT_COMM_LOCAL_GROUPS_H
#define PSRT_COMM_LOCAL_GROUPS_H

#include "runtime/comm/local/Barrier.h"
#include "runtime/comm/local/LocalRendezvous.h"
#include <deque>
#include <map>
#include <optional>

namespace psrt {

/// A group of ranks whose coordinates differ only on the axes passed to `Groups::getGroup`.
struct Group {
  Group(int members, bool dedicated, WaitState &state)
      : barrier(members, dedicated, state), slots(members), ofBackend(members) {}
  Barrier barrier;
  std::vector<void *const *> slots; ///< by member: the buffers of its current collective
  std::vector<void *> ofBackend;    ///< by member: data of the backend, which the backend frees
};

/// Fails if a sent message is not the message that the receiver expects: the number of the value,
/// the micro-batch or the size differs.
void checkMessage(const Bound &sent, const Bound &awaited);
/// Fails if the members of a reduction have tensors of different dtypes or sizes.
void checkReductions(const std::vector<Arrival *> &parts);

/// The groups and queues of one Communication.
class Groups {
public:
  Groups(const Mesh &mesh, bool dedicated);

  /// Makes all current and later waits throw Aborted.
  void abort();
  /// Makes the groups usable after `abort`. No rank may be in a wait.
  void reset();

  Group *getGroup(int rank, const std::vector<int> &axes);
  /// Returns the group of all ranks.
  Group *getAll(int rank) { return getGroup(rank, everyAxis); }
  LocalRendezvous *getQueue(const std::vector<int> &members, const std::string &name);
  Waiter *addWaiter();
  /// Returns the number of polls before a thread sleeps.
  int spins() const { return dedicated ? 4000 : 16; }
  /// Returns the number of ranks that sleep until another rank arrives.
  int countWaiting() const { return state.waiting.load(); }

  const Mesh mesh;
  std::atomic<int> resets{0};

private:
  bool dedicated;
  std::vector<int> everyAxis;
  WaitState state;
  std::mutex mutex;
  std::map<std::vector<int>, std::unique_ptr<Group>> groups;
  std::map<std::pair<std::vector<int>, std::string>, std::unique_ptr<LocalRendezvous>> queues;
  std::deque<Waiter> waiters; ///< one per rank
};

/// One rank's part of an asynchronous communication. The start does not block, because ranks of
/// different pipeline coordinates may reach their starts at different times.
struct AsyncCollective {
  virtual ~AsyncCollective() = default;
  LocalRendezvous *queue = nullptr;
  LocalRendezvous::Action action = nullptr;
  int index = 0; ///< index of this rank among the members
  int64_t token = 0;
  mutable Arrival arrival;
};

/// The asynchronous work that one rank has started but not waited for yet.
class AsyncCollectives {
public:
  explicit AsyncCollectives(Groups &groups) : groups(groups), waiter(groups.addWaiter()) {}
  /// Sets the queue, action and index of a part.
  void prepare(AsyncCollective &part, const std::vector<int> &members, int index, int64_t token,
               const std::string &queue, LocalRendezvous::Action action);
  void reserve(size_t count) { started.reserve(count); }
  void start(const AsyncCollective &part, const Bound &bound);
  /// Waits for the work of a token, or for all work (nullopt). Calls over(part) for each finished
  /// part.
  template <typename Over> void wait(std::optional<int64_t> token, Over &&over) {
    if (resets != groups.resets.load())
      return;
    size_t kept = 0;
    for (const AsyncCollective *part : started)
      if (token && part->token != *token) {
        started[kept++] = part;
      } else {
        waiter->wait(part->arrival.over, groups.spins());
        over(*part);
      }
    started.resize(kept);
  }

private:
  Groups &groups;
  Waiter *waiter;
  std::vector<const AsyncCollective *> started;
  int resets = 0; ///< value of `groups.resets` when this rank last started work
};

} // namespace psrt

#endif
