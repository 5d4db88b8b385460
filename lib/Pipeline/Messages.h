// Plans which values are sent between pipeline coordinates under a schedule, and when.
#ifndef PARASHARD_LIB_PIPELINE_MESSAGES_H
#define PARASHARD_LIB_PIPELINE_MESSAGES_H

#include "dialects/rank/Rank.h"
#include "lib/Schedules/Simulator.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::pipeline {

/// Returns the kind of work that an op belongs to, from its phase. Returns `Work::Forward` if the
/// phase is not a backward phase.
schedules::Work getWork(mlir::Operation *run);
/// Returns true if a task includes `work`. A task of kind `Work::Backward` includes both
/// `BackwardInput` and `BackwardWeight`.
bool doesWork(const schedules::Task &task, schedules::Work work);

/// The values that are sent between the stage functions of one entry. Each value has a number, the
/// attribute `ps.value` of arguments and results.
class StageValues {
public:
  /// `functions` are the stage functions, in order of stages.
  explicit StageValues(llvm::ArrayRef<mlir::func::FuncOp> functions);

  struct Produced {
    int64_t stage;
    schedules::Work work;
    mlir::Type type;
  };
  const Produced &getProduced(int64_t value) const { return produced.at(value); }
  /// Returns the numbers of the values that a task on a stage sends.
  llvm::SmallVector<int64_t> getProducedBy(int64_t stage, const schedules::Task &task) const;
  /// Returns the numbers of the values that a task on a stage receives.
  llvm::SmallVector<int64_t> getNeededBy(int64_t stage, const schedules::Task &task) const;

private:
  using ByWork = std::pair<schedules::Work, int64_t>; ///< work and value number
  std::map<int64_t, Produced> produced;
  std::vector<llvm::SmallVector<ByWork>> outputs, inputs; ///< by stage, in order
};

/// One value of one micro-batch, sent from one pipeline coordinate to another.
struct Message {
  int64_t value, microBatch;
  int64_t from, to; ///< coordinates
  bool isForward;   ///< produced by a forward
  mlir::Type type;
  /// Task indices in the sender's row (its list of tasks). The send starts after task `sent`. The
  /// sender waits for the send before task `released`, or after all tasks if `released` is the
  /// row's length.
  int64_t sent = 0, released = 0;
  /// Task indices in the receiver's row. The receive starts before task `posted`. The receiver
  /// waits for the receive before task `used`.
  int64_t posted = 0, used = 0;

  /// Returns the name of the one-directional queue. Examples: "act.0-1", "grad.1-0".
  std::string getQueue() const;
};

/// Returns all messages of a schedule, sorted by sending coordinate, then by the task that sends
/// the message. The messages of one queue are therefore in the order of the queue.
///
/// The receive of a message starts one task before the value is used. `replay` is a simulation of
/// the schedule with arbitrary task times. It determines the time at which the receive starts. The
/// sender waits for the send before its first later task that begins at or after this time. No
/// deadlock arises, because each wait is for an event that is earlier in the simulation.
std::vector<Message> planMessages(const StageValues &values,
                                  const schedules::PipelineSchedule &table,
                                  const schedules::Replay &replay);

} // namespace parashard::pipeline

#endif
