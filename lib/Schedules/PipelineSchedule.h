// Pipeline schedules as data: what each rank computes, in order.
#ifndef PARASHARD_LIB_SCHEDULES_PIPELINESCHEDULE_H
#define PARASHARD_LIB_SCHEDULES_PIPELINESCHEDULE_H

#include "lib/Schedules/Placement.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard::schedules {

enum class Work {
  Forward,
  Backward,       ///< the gradients of inputs and weights, one after the other
  BackwardInput,  ///< the gradients of a stage's inputs: what the stage before waits for
  BackwardWeight, ///< the rest, at any time after
};

/// One piece of work of a rank: a phase of one of its stages on one micro-batch.
struct Task {
  Work work;
  int64_t chunk;
  int64_t microBatch;

  bool operator==(const Task &other) const {
    return work == other.work && chunk == other.chunk && microBatch == other.microBatch;
  }
};

/// The order of work on every rank. Communication follows from it: a forward waits for that of the
/// stage before, a backward for that of the stage behind, and results are sent as soon as they are
/// there.
struct PipelineSchedule {
  std::string name;
  Placement placement;
  int64_t microBatches = 0;
  std::vector<std::vector<Task>> rows; ///< by rank

  /// Whether weight gradients are work of their own.
  bool splitsBackward() const;
};

/// What a schedule is made for.
struct ScheduleSize {
  int64_t ranks;
  int64_t chunks;
  int64_t microBatches;
};

/// The micro-batches of a step. Compile time and memory grow with them, since a program lists each:
/// a small model takes seconds and 2 GB at this many.
inline constexpr int64_t kMostMicroBatches = 16384;

/// A schedule by the name that `--schedule` takes. To add one, add a function that returns a table
/// (PipelineSchedule.cpp).
struct Schedule {
  const char *name;
  const char *summary;
  PlacementKind placement;
  int64_t leastChunks, mostChunks;
  PipelineSchedule (*make)(const ScheduleSize &size);
};
llvm::ArrayRef<Schedule> getSchedules();

/// The table of a schedule; an error for an unknown name, and for a size that it does not take.
llvm::Expected<PipelineSchedule> makePipelineSchedule(llvm::StringRef schedule, const ScheduleSize &size);

/// Fails unless every stage does each micro-batch's work exactly once, forward before backward
/// before weight gradient, each in the order of the micro-batches: running statistics and sums of
/// floats then have the same bits under every schedule. Whether it can deadlock, the simulator
/// says.
llvm::Error checkPipelineSchedule(const PipelineSchedule &table);

/// A table that a user wrote:
/// `{"placement": "loop" | "v", "chunks": N, "rows": [["F0", "F1", "B0", ...], ...]}`; an entry is
/// F, B, I (backward-input) or W and a micro-batch, and behind a dot the chunk if that is not 0:
/// "I3.1". The result is checked.
llvm::Expected<PipelineSchedule> readPipelineSchedule(llvm::StringRef json, llvm::StringRef name);

/// The schedule of who does not choose: 1f1b, or of several chunks interleaved; zb-v where they lie
/// back and forth.
llvm::StringRef chooseSchedule(const Placement &placement);

/// Where stages lie under a schedule: by name, or what the table in FILE.json says. Errors: an
/// unknown name, a file that cannot be read or checked.
llvm::Expected<PlacementKind> findPlacement(llvm::StringRef schedule);

/// The table of a schedule, by name (empty: the one chosen) or of FILE.json, for stages that lie
/// so. One stage runs each micro-batch forward and backward in turn, whatever the schedule. Errors:
/// as above, and a table for another size.
llvm::Expected<PipelineSchedule> findPipelineSchedule(llvm::StringRef schedule, const Placement &placement,
                                        int64_t microBatches);

/// "F3", or "F3.1" of chunk 1.
std::string describeTask(const Task &task);

} // namespace parashard::schedules

#endif
