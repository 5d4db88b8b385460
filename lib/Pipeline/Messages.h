// Plans which values are sent between pipeline coordinates under a schedule, and when.
#ifndef PARASHARD_LIB_PIPELINE_MESSAGES_H
#define PARASHARD_LIB_PIPELINE_MESSAGES_H

#include "dialects/rank/Rank.h"
#include "lib/Schedules/Simulator.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::pipeline {

/// Returns the kind of work of an op, by its phase. Ops of other phases than backward are Forward.
schedules::Work getWork(mlir::Operation *run);
/// Returns true if a task includes `work`. `Work::Backward` includes both halves of backward.
bool doesWork(const schedules::Task &task, schedules::Work work);

/// The values that are sent between the stage functions of one entry. Their numbers are in
/// `ps.value`.
class StageValues {
public:
  /// Takes the stage functions in order of stages.
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
  /// Task indices in the sender's row. The send starts after task `sent`. The sender waits for the
  /// send before task `released`, or after all tasks if `released` is the row's length.
  int64_t sent = 0, released = 0;
  /// Task indices in the receiver's row. The receive starts before task `posted`. The receiver
  /// waits for it before task `used`.
  int64_t posted = 0, used = 0;

  /// Returns the name of the one-directional queue. Examples: "act.0-1", "grad.1-0".
  std::string getQueue() const;
};

/// Returns all messages of a schedule, by sending coordinate, then in the order of its tasks. The
/// messages of one queue are therefore in the order of the queue.
///
/// The receive of a message starts one task before its use. `replay` is a simulation of the
/// schedule, with any task times, and gives the time at which the receive starts. The sender waits
/// for the send before its first later task that begins at or after this time. Every wait is thus
/// for an earlier event, and no deadlock arises.
std::vector<Message> planMessages(const StageValues &values,
                                  const schedules::PipelineSchedule &table,
                                  const schedules::Replay &replay);

} // namespace parashard::pipeline

#endif
