// Implements --check-memory: checks each instruction's accesses to a rank's arena against the
// memory plan.
#ifndef PSRT_CORE_MEMORYCHECK_H
#define PSRT_CORE_MEMORYCHECK_H

#include "runtime/core/Arena.h"
#include "runtime/core/Backend.h"
#include <map>

namespace psrt {

/// Bytes [begin, end) of an arena.
struct MemoryRange {
  int64_t begin = 0, end = 0;
};

/// Checks the bytes that a rank's instructions read and change. Unused bytes are filled with NaN,
/// as are the bytes of a buffer after its last use. A second copy of the arena shows which bytes an
/// instruction changes; these must lie in the instruction's buffers. The functions are called by
/// one rank, in the order of its code.
class MemoryCheck {
public:
  MemoryCheck(const Program &program, int64_t stage, Arena &arena);

  /// Starts an entry, before its first instruction. Data that the host wrote is accepted.
  void begin(const EntryCode &code);
  /// Surround each instruction. They fail if it uses or has changed bytes outside of its buffers,
  /// and name the instruction, its location and the address.
  void before(const Bound &bound, const ProgramEntry &entry);
  void after(const Bound &bound);
  /// Ends an entry of `code`, after its last instruction.
  void finish(const ProgramEntry &entry);

  /// Return the end of the last planned buffer in the arena, and of the last byte written, over
  /// everything that ran.
  int64_t getPlanned() const { return device.planned; }
  int64_t getMeasured() const { return device.measured; }
  /// Return the same for the host's part, relative to its begin; 0 without one.
  int64_t getHostPlanned() const { return host.planned; }
  int64_t getHostMeasured() const { return host.measured; }

private:
  void hold(MemoryRange range);
  /// Holds variables, and slots, which the host manages.
  void holdForGood(const EntryCode &code);
  /// Poisons all bytes that are not held.
  void poisonRest();
  void release(MemoryRange range);
  void enter(const ProgramEntry &entry);
  /// Returns the range of a buffer in a function's scratch for one run.
  MemoryRange rangeInScratch(const BufferLifetime &buffer, const ProgramEntry &entry) const;
  const MemoryRange *find(int64_t address) const;
  void checkUnchanged(const Bound &bound);
  void checkUnchanged(const Bound &bound, int64_t begin, int64_t end);
  /// Accepts the contents of a range as written.
  void accept(MemoryRange range);
  [[noreturn]] void reject(const Bound &bound, int64_t address, const char *action) const;

  const Program &program;
  int64_t stage;
  Arena &arena;
  Arena copy;
  const EntryCode *code = nullptr;
  const ProgramEntry *current = nullptr; ///< the entry that contains the current instruction
  std::vector<const BufferLifetime *> births, deaths; ///< buffers of the entry by time
  size_t born = 0, dead = 0;
  std::map<int64_t, MemoryRange> held;              ///< ranges in use by first byte
  std::vector<MemoryRange> named;                   ///< ranges that the current instruction uses
  std::map<int64_t, std::vector<MemoryRange>> open; ///< ranges of asynchronous work by token
  /// Largest ends of one part of the addresses.
  struct Ends {
    int64_t planned = 0, measured = 0; ///< relative to the part's begin
  };
  Ends device, host;
  /// Returns the ends of the part that contains an address, and the part's begin.
  std::pair<Ends &, int64_t> partOf(int64_t address);
};

} // namespace psrt

#endif
