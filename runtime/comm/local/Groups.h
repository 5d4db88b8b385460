// Where the ranks that are threads of one process meet: groups with their barriers, queues, and
// what a rank has started and not waited for. Backends say what is done there.
#ifndef PSRT_COMM_LOCAL_GROUPS_H
#define PSRT_COMM_LOCAL_GROUPS_H

#include "runtime/comm/local/Barrier.h"
#include "runtime/comm/local/LocalRendezvous.h"
#include <deque>
#include <map>
#include <optional>

namespace psrt {

/// The ranks that differ only on one list of axes.
struct Group {
  Group(int members, bool dedicated, WaitState &state)
      : barrier(members, dedicated, state), slots(members), owned(members) {}
  Barrier barrier;
  std::vector<void *const *> slots; ///< what each member published
  std::vector<void *> owned;        ///< what a backend has for each member
};

/// Fails when what is sent is not what is awaited.
void checkMessage(const Bound &sent, const Bound &awaited);
/// Fails when the members of a reduction give unlike tensors.
void checkReductions(const std::vector<Arrival *> &parts);

class Groups {
public:
  Groups(const Mesh &mesh, bool dedicated);

  /// Wakes every rank that waits, now or later, with Aborted.
  void abort();
  /// Nobody may be inside.
  void reset();

  Group *getGroup(int rank, const std::vector<int> &axes);
  /// All ranks of the mesh.
  Group *getAll(int rank) { return getGroup(rank, everyAxis); }
  LocalRendezvous *getPlace(const std::vector<int> &members, const std::string &queue);
  Waiter *addWaiter();
  /// How often one looks before it sleeps.
  int spins() const { return dedicated ? 4000 : 16; }
  /// How many ranks are asleep until another one comes.
  int countWaiting() const { return state.waiting.load(); }

  const Mesh mesh;
  std::atomic<int> resets{0};

private:
  bool dedicated;
  std::vector<int> everyAxis;
  WaitState state;
  std::mutex mutex;
  std::map<std::vector<int>, std::unique_ptr<Group>> groups;
  std::map<std::pair<std::vector<int>, std::string>, std::unique_ptr<LocalRendezvous>> places;
  std::deque<Waiter> waiters; ///< of the ranks
};

/// One rank's part in communication among pipeline coordinates: their programs differ, so nobody
/// may wait at a start.
struct AsyncCollective {
  virtual ~AsyncCollective() = default;
  LocalRendezvous *place = nullptr;
  LocalRendezvous::Action action = nullptr;
  int index = 0; ///< this rank's place among the members
  int64_t token = 0;
  mutable Arrival arrival;
};

/// What one rank has started and not waited for yet.
class AsyncCollectives {
public:
  explicit AsyncCollectives(Groups &groups) : groups(groups), waiter(groups.addWaiter()) {}
  /// Fills in who meets, and in which queue.
  void prepare(AsyncCollective &part, const std::vector<int> &members, int index, int64_t token,
               const std::string &queue, LocalRendezvous::Action action);
  void reserve(size_t count) { started.reserve(count); }
  void start(const AsyncCollective &what, const Bound &bound);
  /// Waits for what was started with the token, without one for all; calls over(part) for each.
  template <typename Over> void wait(std::optional<int64_t> token, Over &&over) {
    if (resets != groups.resets.load())
      return;
    size_t kept = 0;
    for (const AsyncCollective *one : started)
      if (token && one->token != *token) {
        started[kept++] = one;
      } else {
        waiter->wait(one->arrival.over, groups.spins());
        over(*one);
      }
    started.resize(kept);
  }

private:
  Groups &groups;
  Waiter *waiter;
  std::vector<const AsyncCollective *> started;
  int resets = 0; ///< of the groups, when this rank started something last
};

} // namespace psrt

#endif
