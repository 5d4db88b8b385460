// Where started communication among the threads of one process meets: whoever comes last does it
// for all.
#ifndef PSRT_COMM_LOCAL_MEETINGS_H
#define PSRT_COMM_LOCAL_MEETINGS_H

#include "runtime/comm/local/Barrier.h"
#include "runtime/core/Backend.h"
#include <atomic>
#include <mutex>
#include <vector>

namespace psrt {

/// A thread waits here for what others do for it.
class Bell {
public:
  explicit Bell(WaitState &state) : state(state) {}
  void ring();
  /// Returns when `over` is set; throws Aborted when a rank failed.
  void wait(const std::atomic<bool> &over, int spins);

private:
  WaitState &state;
  std::atomic<uint32_t> rings{0};
};

/// One member's part in a meeting, started again and again, never while it is under way.
struct Attendance {
  const Bound *bound = nullptr; ///< what is started
  Bell *bell = nullptr;         ///< of its rank
  std::atomic<bool> over{true};
  Attendance *next = nullptr; ///< behind it in its member's line
};

/// A queue among members: the n-th that each starts belong together.
class MeetingPlace {
public:
  /// What is done with the parts of all members, in their order.
  using Action = void (*)(const std::vector<Attendance *> &);
  explicit MeetingPlace(int members) : lines(members) { present.reserve(members); }

  /// The last one to come acts, then all are told.
  void attend(int member, Attendance &attendance, Action action);
  /// Forgets who had come; nobody may be inside.
  void reset();

private:
  struct Line {
    Attendance *first = nullptr, *last = nullptr;
  };
  std::mutex mutex; ///< of the lines, and held while one acts: meetings of a queue are in order
  std::vector<Line> lines;
  std::vector<Attendance *> present;
};

} // namespace psrt

#endif
