// Implements --check-memory: checks that each instruction accesses only buffers that are live in
// the memory plan.
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

/// Checks the memory accesses of one rank. Bytes without a live buffer are filled with NaN, so that
/// reading them spoils the result. A copy of the arena shows which bytes an instruction has
/// changed; these bytes must be in the instruction's buffers. The rank calls the member functions
/// in the order of its code.
class MemoryCheck {
public:
  MemoryCheck(const Program &program, int64_t coordinate, Arena &arena);

  /// Begins an entry point, before its first instruction. Accepts all data that the host has
  /// written so far.
  void begin(const EntryCode &code);
  /// Check an instruction of a code element before and after the instruction runs. Fail if the
  /// instruction uses an address without a live buffer, or has changed bytes outside of its
  /// buffers. The message contains the instruction, its location and the address.
  void before(const Bound &bound, const ProgramEntry &element);
  void after(const Bound &bound);
  /// Ends a code element (a run of a function, or one instruction), after its last instruction.
  void finish(const ProgramEntry &element);

  /// Return the highest end of a planned buffer, and the end of the highest written byte, over all
  /// entries that ran.
  int64_t getPlanned() const { return device.planned; }
  int64_t getMeasured() const { return device.measured; }
  /// Return the same for host memory, relative to its first byte; 0 if there is none.
  int64_t getHostPlanned() const { return host.planned; }
  int64_t getHostMeasured() const { return host.measured; }

private:
  void hold(MemoryRange range);
  /// Marks the memory of variables and slots as in use during the whole entry.
  void holdForGood(const EntryCode &code);
  /// Fills all bytes that are not in use with NaN.
  void poisonRest();
  void release(MemoryRange range);
  /// Begins a code element, before its first instruction.
  void enter(const ProgramEntry &element);
  /// Returns the address range of a scratch buffer in one run of its function.
  MemoryRange rangeInScratch(const BufferLifetime &buffer, const ProgramEntry &element) const;
  const MemoryRange *find(int64_t address) const;
  void checkUnchanged(const Bound &bound);
  void checkUnchanged(const Bound &bound, int64_t begin, int64_t end);
  /// Copies the current contents of a range to `copy`. Later checks expect these contents.
  void accept(MemoryRange range);
  [[noreturn]] void reject(const Bound &bound, int64_t address, const char *action) const;

  const Program &program;
  int64_t coordinate; ///< pipeline coordinate of the rank
  Arena &arena;
  Arena copy;
  const EntryCode *code = nullptr;
  const ProgramEntry *current = nullptr;      ///< the code element with the current instruction
  std::vector<const BufferLifetime *> births; ///< buffers of the entry, sorted by begin
  std::vector<const BufferLifetime *> deaths; ///< the same buffers, sorted by end
  size_t born = 0, dead = 0;
  std::map<int64_t, MemoryRange> held;              ///< ranges in use, keyed by their first byte
  std::vector<MemoryRange> named;                   ///< ranges that the current instruction uses
  std::map<int64_t, std::vector<MemoryRange>> open; ///< ranges of asynchronous work, keyed by token
  /// The largest ends in one part of the addresses: device memory or host memory.
  struct Ends {
    int64_t planned = 0, measured = 0; ///< relative to the start of the part
  };
  Ends device, host;
  /// Returns the ends of the part that contains an address, and the start of the part.
  std::pair<Ends &, int64_t> partOf(int64_t address);
};

} // namespace psrt

#endif
