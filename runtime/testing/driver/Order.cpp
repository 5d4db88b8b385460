// Checks accesses against the last write and the reads since then.
#include "runtime/testing/driver/Order.h"
#include "runtime/testing/driver/Codes.h"
#include <algorithm>

namespace psrt::fake {

/// Limit on the number of reports.
static constexpr size_t maxReports = 20;

void join(Clock &into, const Clock &from) {
  if (into.size() < from.size())
    into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    into[i] = std::max(into[i], from[i]);
}

unsigned Order::addActor(std::string name) {
  actors.push_back(std::move(name));
  return unsigned(actors.size() - 1);
}

bool Order::perform(unsigned actor, Clock &clock, const std::string &name,
                    const std::vector<Access> &accesses) {
  if (clock.size() <= actor)
    clock.resize(actor + 1);
  uint64_t time = ++clock[actor];
  bool fine = true;
  for (const Access &access : accesses) {
    if (access.begin >= access.end)
      continue;
    auto touch = std::make_shared<const Touch>(Touch{actor, time, name, access});
    fine &= access.writes ? write(touch, clock) : read(touch, clock);
  }
  return fine;
}

/// Splits the cell that contains `at`, if any, at this address. Returns the first cell that begins
/// at or after `at`.
Order::Cells::iterator Order::split(uint64_t at) {
  auto next = cells.lower_bound(at);
  if (next == cells.begin())
    return next;
  auto before = std::prev(next);
  if (before->second.end <= at)
    return next;
  Cell rest = before->second;
  before->second.end = at;
  return cells.emplace_hint(next, at, std::move(rest));
}

bool Order::ordered(const TouchRef &earlier, const Touch &touch, const Clock &clock) {
  if (!earlier || (earlier->actor < clock.size() && clock[earlier->actor] >= earlier->time))
    return true;
  report(*earlier, touch);
  return false;
}

bool Order::check(const Cell &cell, const Touch &touch, const Clock &clock) {
  bool fine = ordered(cell.write, touch, clock);
  if (touch.access.writes)
    for (const TouchRef &earlier : cell.reads)
      fine &= ordered(earlier, touch, clock);
  return fine;
}

bool Order::write(const TouchRef &touch, const Clock &clock) {
  const Access &access = touch->access;
  bool fine = true;
  split(access.end);
  auto cell = split(access.begin);
  while (cell != cells.end() && cell->first < access.end) {
    fine &= check(cell->second, *touch, clock);
    cell = cells.erase(cell);
  }
  cells.emplace_hint(cell, access.begin, Cell{access.end, touch, {}});
  return fine;
}

void Order::addRead(Cell &cell, const TouchRef &touch, const Clock &clock) {
  // Reads that happen before this read need not be kept: a write after this read is also after
  // those reads.
  std::erase_if(cell.reads, [&](const TouchRef &earlier) {
    return earlier->actor < clock.size() && clock[earlier->actor] >= earlier->time;
  });
  cell.reads.push_back(touch);
}

bool Order::read(const TouchRef &touch, const Clock &clock) {
  const Access &access = touch->access;
  bool fine = true;
  split(access.end);
  auto cell = split(access.begin);
  for (uint64_t at = access.begin; at < access.end;) {
    if (cell == cells.end() || cell->first > at) {
      uint64_t end = cell == cells.end() ? access.end : std::min(cell->first, access.end);
      cell = cells.emplace_hint(cell, at, Cell{end, nullptr, {}});
    }
    fine &= check(cell->second, *touch, clock);
    addRead(cell->second, touch, clock);
    at = cell->second.end;
    ++cell;
  }
  for (auto merged = cells.find(access.begin); merged != cells.end() && merged->first < access.end;
       ++merged)
    mergeWithNext(merged);
  return fine;
}

void Order::mergeWithNext(Cells::iterator cell) {
  auto next = std::next(cell);
  while (next != cells.end() && next->first == cell->second.end &&
         next->second.write == cell->second.write && next->second.reads == cell->second.reads) {
    cell->second.end = next->second.end;
    next = cells.erase(next);
  }
}

void Order::forget(uint64_t begin, uint64_t end) {
  split(end);
  auto first = split(begin);
  cells.erase(first, cells.lower_bound(end));
}

void Order::report(const Touch &earlier, const Touch &later) {
  if (reported.size() >= maxReports || !reported.emplace(earlier.name, later.name).second)
    return;
  auto verb = [](const Touch &touch) { return touch.access.writes ? "writes" : "reads"; };
  complain("no order between '%s' on %s, which %s [0x%llx, 0x%llx), and '%s' on %s, which %s "
           "[0x%llx, 0x%llx); record an event after the first operation, and make the stream of "
           "the second wait for it",
           earlier.name.c_str(), actors[earlier.actor].c_str(), verb(earlier),
           (unsigned long long)earlier.access.begin, (unsigned long long)earlier.access.end,
           later.name.c_str(), actors[later.actor].c_str(), verb(later),
           (unsigned long long)later.access.begin, (unsigned long long)later.access.end);
  if (reported.size() == maxReports)
    complain("further conflicts are not reported");
}

} // namespace psrt::fake
