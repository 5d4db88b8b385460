// The proof of order: vector clocks say what comes after what, and for each byte the last write and
// the reads since then must come before whatever conflicts with them (as in FastTrack, Flanagan and
// Freund 2009, over ranges of bytes).
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

/// clock[a]: how many operations of actor a come before. Actors are streams and host threads.
using Clock = std::vector<uint64_t>;

/// What comes before `from` now also comes before `into`.
void join(Clock &into, const Clock &from);

struct Access {
  uint64_t begin, end;
  bool writes;
};

/// Not thread-safe: the machine's lock guards it.
class Order {
public:
  /// A new actor; `name` is for reports.
  unsigned addActor(std::string name);

  /// The next operation of `actor`, which comes after `clock`. False where it conflicts with an
  /// operation that it is not ordered with: that has been reported then.
  bool perform(unsigned actor, Clock &clock, const std::string &what,
               const std::vector<Access> &accesses);

  /// Forgets the accesses of memory that is given back.
  void forget(uint64_t begin, uint64_t end);
  /// Conflicts that were reported may be reported again.
  void forgetReports() { reported.clear(); }

private:
  /// An access as it is remembered.
  struct Touch {
    unsigned actor;
    uint64_t time;
    std::string what;
    Access access;
  };
  using TouchRef = std::shared_ptr<const Touch>;
  struct Cell {
    uint64_t end;
    TouchRef write;
    std::vector<TouchRef> reads;
  };
  /// By first byte; cells do not overlap. Bytes in no cell were never touched.
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
