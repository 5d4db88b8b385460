// Represents pipeline schedules as data: the tasks of each rank, in order. A rank here is a
// pipeline coordinate, as in Placement.h.
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
  Backward,       ///< gradients of inputs, then of weights
  BackwardInput,  ///< gradients of a stage's inputs; the previous stage waits for them
  BackwardWeight, ///< gradients of a stage's weights, at any time after `BackwardInput`
};

/// One unit of work of a rank: one kind of work for one of its chunks and one micro-batch.
struct Task {
  Work work;
  int64_t chunk;
  int64_t microBatch;

  bool operator==(const Task &other) const {
    return work == other.work && chunk == other.chunk && microBatch == other.microBatch;
  }
};

/// A pipeline schedule. The order of the tasks also determines the communication. A forward waits
/// for the forward of the previous stage, and a backward waits for the backward of the next stage.
/// Results are sent as soon as they are available.
struct PipelineSchedule {
  std::string name;
  Placement placement;
  int64_t microBatches = 0;
  std::vector<std::vector<Task>> rows; ///< the tasks of each rank, in order

  /// Returns true if weight gradients are separate tasks.
  bool splitsBackward() const;
};

/// The size of the pipeline that a schedule is generated for.
struct ScheduleSize {
  int64_t ranks;
  int64_t chunks;
  int64_t microBatches;
};

/// Maximum number of micro-batches per step. A program lists each micro-batch, so compile time and
/// memory grow with the number. At this maximum, compiling a small model takes seconds and 2 GB of
/// memory.
inline constexpr int64_t kMaxMicroBatches = 16384;

/// A built-in schedule and its generator. `name` is a value of `--schedule`. To add a schedule, add
/// a row with a new `make` function to kSchedules (PipelineSchedule.cpp).
struct Schedule {
  const char *name;
  const char *summary;
  PlacementKind placement;
  int64_t minChunks, maxChunks; ///< per rank
  PipelineSchedule (*make)(const ScheduleSize &size);
};
llvm::ArrayRef<Schedule> getSchedules();
/// Returns the names of all schedules for help and errors: "gpipe, 1f1b, ...".
std::string listSchedules();

/// Generates the built-in schedule with this name. Fails for an unknown name, and for a size that
/// the schedule does not support.
llvm::Expected<PipelineSchedule> makePipelineSchedule(llvm::StringRef schedule,
                                                      const ScheduleSize &size);

/// Checks the tasks of each rank. For each of its chunks, a rank must run every micro-batch exactly
/// once: forward, then backward, then weight gradient. Each kind of task must be in the order of
/// the micro-batches. This order gives running statistics and accumulated gradients the same bits
/// under every schedule. Does not find deadlocks; `replay` finds them.
llvm::Error checkPipelineSchedule(const PipelineSchedule &table);

/// Reads and checks a schedule that a user wrote: `{"placement": "loop" | "v", "chunks": N, "rows":
/// [["F0", "F1", "B0", ...], ...]}`, with one row per rank. The default placement is "loop", with 1
/// chunk. A task is a letter (F: forward, B: backward, I: input gradients, W: weight gradients) and
/// a micro-batch. A chunk other than 0 follows after a dot. Example: "I3.1" is the input gradient
/// of micro-batch 3 on chunk 1.
llvm::Expected<PipelineSchedule> readPipelineSchedule(llvm::StringRef json, llvm::StringRef name);

/// Returns the default schedule: 1f1b for one chunk, zb-v for the V placement, else interleaved.
llvm::StringRef chooseSchedule(const Placement &placement);

/// Returns the placement of stages that a schedule needs. `schedule` is a name or FILE.json.
/// Returns Loop for an empty name. Fails for an unknown name, and for a file that cannot be read or
/// is not valid.
llvm::Expected<PlacementKind> findPlacement(llvm::StringRef schedule);

/// Returns the schedule for a placement. `schedule` is a name (empty: the default schedule) or
/// FILE.json. With one stage, returns 1f1b for any `schedule`. Fails like `findPlacement`, and if
/// the schedule does not fit the placement or the number of micro-batches.
llvm::Expected<PipelineSchedule>
findPipelineSchedule(llvm::StringRef schedule, const Placement &placement, int64_t microBatches);

/// Formats a task as in a schedule file: "F3", or "F3.1" for chunk 1.
std::string describeTask(const Task &task);

} // namespace parashard::schedules

#endif
