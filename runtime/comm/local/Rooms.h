// Where the ranks that are threads of one process meet: groups with their barriers, queues, and
// what a rank has started and not waited for. Backends say what is done there.
#ifndef PSRT_COMM_LOCAL_ROOMS_H
#define PSRT_COMM_LOCAL_ROOMS_H

#include "runtime/comm/local/Barrier.h"
#include "runtime/comm/local/Meetings.h"
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
void checkReductions(const std::vector<Attendance *> &parts);

class Rooms {
public:
  Rooms(const Mesh &mesh, bool dedicated);

  /// Wakes every rank that waits, now or later, with Aborted.
  void abort();
  /// Nobody may be inside.
  void reset();

  Group *getGroup(int rank, const std::vector<int> &axes);
  /// All ranks of the mesh.
  Group *getAll(int rank) { return getGroup(rank, everyAxis); }
  MeetingPlace *getPlace(const std::vector<int> &members, const std::string &queue);
  Bell *addBell();
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
  std::map<std::pair<std::vector<int>, std::string>, std::unique_ptr<MeetingPlace>> places;
  std::deque<Bell> bells; ///< of the ranks
};

/// One rank's part in communication among pipeline coordinates: their programs differ, so nobody
/// may wait at a start.
struct Started {
  virtual ~Started() = default;
  MeetingPlace *place = nullptr;
  MeetingPlace::Action action = nullptr;
  int index = 0; ///< this rank's place among the members
  int64_t token = 0;
  mutable Attendance attendance;
};

/// What one rank has started and not waited for yet.
class StartedList {
public:
  explicit StartedList(Rooms &rooms) : rooms(rooms), bell(rooms.addBell()) {}
  /// Fills in who meets, and in which queue.
  void prepare(Started &part, const std::vector<int> &members, int index, int64_t token,
               const std::string &queue, MeetingPlace::Action action);
  void reserve(size_t count) { started.reserve(count); }
  void start(const Started &what, const Bound &bound);
  /// Waits for what was started with the token, without one for all; calls over(part) for each.
  template <typename Over> void wait(std::optional<int64_t> token, Over &&over) {
    if (resets != rooms.resets.load())
      return;
    size_t kept = 0;
    for (const Started *one : started)
      if (token && one->token != *token) {
        started[kept++] = one;
      } else {
        bell->wait(one->attendance.over, rooms.spins());
        over(*one);
      }
    started.resize(kept);
  }

private:
  Rooms &rooms;
  Bell *bell;
  std::vector<const Started *> started;
  int resets = 0; ///< of the rooms, when this rank started something last
};

} // namespace psrt

#endif
