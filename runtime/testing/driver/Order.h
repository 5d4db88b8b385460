// Detects data races: conflicting accesses that no happens-before relation orders. Vector clocks
// represent the relation. For each byte, the last write and the reads since then must happen before
// each conflicting access (as in FastTrack, Flanagan and Freund 2009, but over byte ranges).
#ifndef PSRT_TESTING_DRIVER_ORDER_H
#define PSRT_TESTING_DRIVER_ORDER_H

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace psrt::fake {

/// A point in the happens-before relation: clock[a] operations of actor a happen before this point.
/// Actors are streams and host threads. Example: {2, 5} means that two operations of actor 0 and
/// five of actor 1 are done.
using Clock = std::vector<uint64_t>;

/// Makes everything that happens before `from` also happen before `into`.
void join(Clock &into, const Clock &from);

struct Access {
  uint64_t begin, end;
  bool writes;
};

/// Not thread-safe; guarded by the machine's lock.
class Order {
public:
  /// Adds an actor; `name` is used in reports.
  unsigned addActor(std::string name);

  /// Performs the next operation of `actor`, which happens after `clock`. Returns false if the
  /// operation conflicts with an unordered one; the conflict has been reported.
  bool perform(unsigned actor, Clock &clock, const std::string &name,
               const std::vector<Access> &accesses);

  /// Forgets the accesses of freed memory.
  void forget(uint64_t begin, uint64_t end);
  /// Allows conflicts to be reported again.
  void forgetReports() { reported.clear(); }

private:
  /// A recorded access.
  struct Touch {
    unsigned actor;
    uint64_t time;
    std::string name;
    Access access;
  };
  using TouchRef = std::shared_ptr<const Touch>;
  /// Bytes with the same last write and the same reads since then.
  struct Cell {
    uint64_t end;
    TouchRef write;
    std::vector<TouchRef> reads;
  };
  /// Cells by first byte; they do not overlap. Bytes outside of all cells were never accessed.
  using Cells = std::map<uint64_t, Cell>;

  Cells::iterator split(uint64_t at);
  bool check(const Cell &cell, const Touch &touch, const Clock &clock);
  bool ordered(const TouchRef &earlier, const Touch &touch, const Clock &clock);
  bool write(const TouchRef &touch, const Clock &clock);
  bool read(const TouchRef &touch, const Clock &clock);
  void addRead(Cell &cell, const TouchRef &touch, const Clock &clock);
  void mergeWithNext(Cells::iterator cell);
  void report(const Touch &earlier, const Touch &later);

  std::vector<std::string> actors;
  Cells cells;
  std::set<std::pair<std::string, std::string>> reported;
};

} // namespace psrt::fake

#endif
