// Runs the entries of a program on one rank. Instructions are bound to addresses once and then
// called in order.
#ifndef PSRT_CORE_EXECUTOR_H
#define PSRT_CORE_EXECUTOR_H

#include "runtime/core/BufferExtents.h"
#include "runtime/core/MemoryCheck.h"
#include <map>

namespace psrt {

/// An event of a trace. Times are in seconds of the steady clock.
struct TraceEvent {
  const Bound *bound;
  const ProgramEntry *entry; ///< the run or single instruction of the event
  int64_t step;
  double start, end;
  bool isStarted = false; ///< whether the communication recorded the times
};

/// The part of an entry to run.
enum class Extent { All, BeforeUpdate, Update };

/// Runs a program's entries on one rank.
class Executor {
public:
  Executor(const Program &program, const Kernel *kernels, int rank, RankMemory &memory,
           RankDevice &device, RankComm &comm, uint64_t seed);

  /// An entry whose instructions are bound to one slot. A slot contains the values that forward
  /// saves for backward.
  struct BoundEntry {
    std::vector<Bound> code;
    const EntryCode *point = nullptr;
    std::vector<const ProgramEntry *> entries; ///< by instruction: the element of `point->code`
    std::vector<void *> pointers;
    std::vector<int64_t> scalars;
    const int64_t *seen = nullptr; ///< the address from which instructions read `scalars`
    std::vector<int64_t>
        extents;              ///< buffer extents, one per pointer; empty if the device needs none
    std::vector<size_t> runs; ///< per element of `point->code`: index of its first scalar
    size_t updateFrom = 0;    ///< index in `code` of the update's first instruction
  };

  /// Binds an entry, or returns the result of an earlier call. With `piecewise`, the first
  /// accumulation also adds to its accumulator instead of overwriting it, so the host must zero the
  /// accumulators before a step.
  BoundEntry &bind(const EntryPoint &entry, int64_t slot, bool piecewise);
  /// Runs a bound entry. Random numbers depend on `microBatch`; -1 selects the micro-batch number
  /// that is in the program.
  void run(BoundEntry &entry, int64_t step, Extent extent = Extent::All, int64_t microBatch = -1);
  /// Waits for collectives that started early, and read gradients. Must be called before the host
  /// changes gradients between the part before the update and the update.
  void finishEarlyCollectives() { comm.drain(); }
  /// Must be called before the update of an entry runs if the host has changed gradients since the
  /// part before the update. Repeats the collectives that have started early, beside backward.
  void repeatEarlyCollectives(BoundEntry &entry);

  /// Describes the wait of this rank in a deadlock: "waits for rank 1 in all_reduce over tp".
  std::string describeWait() const;

  /// Starts collecting events, at most `capacity`; further events are dropped and counted.
  void startTrace(size_t capacity);
  const std::vector<TraceEvent> &trace() const { return events; }
  size_t dropped() const { return droppedEvents; }
  /// Checks all further instructions against the memory plan. Slow. Fails if the arena is not in
  /// host memory.
  void checkMemory();
  /// Returns null if memory is not checked.
  const MemoryCheck *memoryCheck() const { return check.get(); }

private:
  void bindCode(BoundEntry &result, const Instruction &instruction, const ProgramEntry &entry,
                const EntryCode &point, int64_t slot, bool piecewise, size_t scalarsAt);
  void bindOne(Bound &bound, const ProgramEntry &entry, bool piecewise);
  /// Returns the arena address of a buffer, or Addresses::Absent if the buffer is absent.
  int64_t resolve(const BufferRef &buffer, const ProgramEntry &entry, const EntryCode &point,
                  int64_t slot) const;
  void runObserved(BoundEntry &entry, int64_t step, size_t from, size_t to);
  void runTraced(const BoundEntry &entry, size_t at, int64_t step);
  void takeTimes(const BoundEntry &entry, int64_t step);

  const Program &program;
  const Kernel *kernels;
  int rank;
  std::vector<int64_t> coordinates;
  int64_t stage; ///< pipeline coordinate of the rank
  RankMemory &memory;
  RankDevice &device;
  RankComm &comm;
  uint64_t seed;
  std::map<std::tuple<const EntryCode *, int64_t, bool>, std::unique_ptr<BoundEntry>> entries;
  std::atomic<const BoundEntry *> running{nullptr};
  std::vector<TraceEvent> events;
  size_t capacity = 0, droppedEvents = 0;
  size_t timed = 0; ///< number of events whose times are filled in
  std::unique_ptr<MemoryCheck> check;
  std::unique_ptr<BufferExtents> extents; ///< null unless the device needs extents
};

} // namespace psrt

#endif
