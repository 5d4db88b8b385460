// Lines of those who wait, and telling them.
#include "runtime/comm/local/Meetings.h"
#include "runtime/core/Status.h"
#include <algorithm>

namespace psrt {

void Bell::ring() {
  rings.fetch_add(1);
  rings.notify_all();
}

void Bell::wait(const std::atomic<bool> &over, int spins) {
  for (int i = 0; i < spins && !over.load(); ++i)
    pauseThread();
  if (over.load())
    return;
  CountedWait counted(state);
  while (!over.load()) {
    uint32_t seen = rings.load();
    if (state.aborted.load())
      throw Aborted();
    if (!over.load())
      rings.wait(seen);
  }
}

void MeetingPlace::attend(int member, Attendance &attendance, Action action) {
  attendance.over = false;
  attendance.next = nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  Line &line = lines[member];
  (line.first ? line.last->next : line.first) = &attendance;
  line.last = &attendance;
  if (std::any_of(lines.begin(), lines.end(), [](const Line &line) { return !line.first; }))
    return;
  present.clear();
  for (Line &each : lines) {
    present.push_back(each.first);
    each.first = each.first->next;
  }
  action(present);
  for (Attendance *one : present) {
    Bell *bell = one->bell; // it may start again as soon as it is over
    one->over = true;
    bell->ring();
  }
}

void MeetingPlace::reset() { lines.assign(lines.size(), {}); }

} // namespace psrt
