// Runs the entries of a program on one rank: instructions are bound to addresses once, then called
// in order.
#ifndef PSRT_CORE_EXECUTOR_H
#define PSRT_CORE_EXECUTOR_H

#include "runtime/core/BufferExtents.h"
#include "runtime/core/MemoryCheck.h"
#include <map>

namespace psrt {

/// One event of a trace, in seconds of the steady clock.
struct TraceEvent {
  const Bound *bound;
  const ProgramEntry *entry; ///< that it belongs to
  int64_t step;
  double start, end;
  bool isStarted = false; ///< it ran beside the instructions, in its queue
};

/// What is run of an entry.
enum class Extent { All, BeforeUpdate, Update };

class Executor {
public:
  Executor(const Program &program, const Kernel *kernels, int rank, RankMemory &memory,
           RankDevice &device, RankComm &comm, uint64_t seed);

  /// An entry bound for one slot of saved values.
  struct BoundEntry {
    std::vector<Bound> code;
    const EntryCode *point = nullptr;
    std::vector<const ProgramEntry *> entries; ///< per instruction
    std::vector<void *> pointers;
    std::vector<int64_t> scalars;
    const int64_t *seen = nullptr; ///< the scalars, where instructions see them
    std::vector<int64_t> extents;  ///< of the pointers; empty where the device did not ask
    std::vector<size_t> runs;      ///< where each run's scalars begin
    size_t updateFrom = 0;         ///< the first instruction of the update
  };

  /// Binds an entry (kept). `piecewise`: every accumulation adds; the host zeroes what it
  /// accumulates into.
  BoundEntry &bind(const EntryPoint &entry, int64_t slot, bool piecewise);
  /// `microBatch`: what random numbers are keyed by instead of the program's own; -1: the
  /// program's.
  void run(BoundEntry &entry, int64_t step, Extent extent = Extent::All, int64_t microBatch = -1);

  /// For messages, while all ranks wait for each other: "waits for rank 1 in all_reduce over tp".
  std::string describeWait() const;

  /// Collects events from now on, at most `capacity` (more are dropped and counted).
  void startTrace(size_t capacity);
  const std::vector<TraceEvent> &trace() const { return events; }
  size_t dropped() const { return droppedEvents; }
  /// Holds all that runs from now on against the plan of the memory; slow. Fails where the memory
  /// is not the host's.
  void checkMemory();
  /// Null where it is not checked.
  const MemoryCheck *memoryCheck() const { return check.get(); }

private:
  void bindCode(BoundEntry &result, const Instruction &instruction, const ProgramEntry &entry,
                const EntryCode &point, int64_t slot, bool piecewise, size_t scalarsAt);
  void bindOne(Bound &bound, const ProgramEntry &entry, bool piecewise);
  /// The arena address; Absent where there is no buffer.
  int64_t resolve(const BufferRef &buffer, const ProgramEntry &entry, const EntryCode &point,
                  int64_t slot) const;
  void runObserved(BoundEntry &entry, int64_t step, size_t from, size_t to);
  void runTraced(const BoundEntry &entry, size_t at, int64_t step);
  void takeTimes(const BoundEntry &entry, int64_t step);

  const Program &program;
  const Kernel *kernels;
  int rank;
  std::vector<int64_t> coordinates;
  int64_t stage; ///< the rank's pipeline coordinate
  RankMemory &memory;
  RankDevice &device;
  RankComm &comm;
  uint64_t seed;
  std::map<std::tuple<const EntryCode *, int64_t, bool>, std::unique_ptr<BoundEntry>> entries;
  std::atomic<const BoundEntry *> running{nullptr};
  std::vector<TraceEvent> events;
  size_t capacity = 0, droppedEvents = 0;
  size_t timed = 0; ///< events whose times are known
  std::unique_ptr<MemoryCheck> check;
  std::unique_ptr<BufferExtents> extents; ///< where the device asks
};

} // namespace psrt

#endif
