// --check-memory: holds what instructions do to a rank's arena against the plan of its buffers.
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

/// Bytes that hold nothing by the plan are NaN in every type of floats; what is no longer in use
/// becomes so at once. A second copy of the arena shows what an instruction changes, which must lie
/// in the buffers that it names. The calls are those of one rank, in the order of its code.
class MemoryCheck {
public:
  MemoryCheck(const Program &program, int64_t stage, Arena &arena);

  /// Before the first instruction of an entry: what the host wrote is taken as it is.
  void begin(const EntryCode &code);
  /// Around each instruction. Fail where it names, or has changed, bytes that are not its own:
  /// with the instruction, its location and the address.
  void before(const Bound &bound, const ProgramEntry &entry);
  void after(const Bound &bound);
  /// After the last instruction of an entry of `code`.
  void finish(const ProgramEntry &entry);

  /// The end of the last buffer that lies in the arena, and of the last byte that was written, of
  /// all that ran.
  int64_t getPlanned() const { return device.planned; }
  int64_t getMeasured() const { return device.measured; }
  /// The same of the host's part, from its begin on; 0 where there is none.
  int64_t getHostPlanned() const { return host.planned; }
  int64_t getHostMeasured() const { return host.measured; }

private:
  void hold(MemoryRange range);
  /// Variables, and what slots keep, which is the host's business.
  void holdForGood(const EntryCode &code);
  /// What is not held.
  void poisonRest();
  void release(MemoryRange range);
  void enter(const ProgramEntry &entry);
  /// Of the function's scratch, in a run.
  MemoryRange place(const BufferLifetime &buffer, const ProgramEntry &entry) const;
  const MemoryRange *find(int64_t address) const;
  void checkUnchanged(const Bound &bound);
  void checkUnchanged(const Bound &bound, int64_t begin, int64_t end);
  /// Takes what is there as written.
  void accept(MemoryRange range);
  [[noreturn]] void reject(const Bound &bound, int64_t address, const char *what) const;

  const Program &program;
  int64_t stage;
  Arena &arena;
  Arena copy;
  const EntryCode *code = nullptr;
  const ProgramEntry *current = nullptr; ///< the entry in whose code the instruction stands
  std::vector<const BufferLifetime *> births, deaths; ///< the entry's buffers, by time
  size_t born = 0, dead = 0;
  std::map<int64_t, MemoryRange> held;              ///< what is in use, by first byte
  std::vector<MemoryRange> named;                   ///< by the instruction
  std::map<int64_t, std::vector<MemoryRange>> open; ///< by what is started, by token
  struct Ends {
    int64_t planned = 0, measured = 0; ///< from the part's begin on
  };
  Ends device, host;
  /// Of the part that an address lies in, and where that begins.
  std::pair<Ends &, int64_t> partOf(int64_t address);
};

} // namespace psrt

#endif
