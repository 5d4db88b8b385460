// Which values travel between pipeline coordinates under a schedule, and when.
#ifndef PARASHARD_LIB_PIPELINE_MESSAGES_H
#define PARASHARD_LIB_PIPELINE_MESSAGES_H

#include "dialects/rank/Rank.h"
#include "lib/Schedules/Simulator.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::ps {

/// What kind of work a run is.
schedules::Work getWork(mlir::Operation *run);
/// Whether a task does that kind of work.
bool doesWork(const schedules::Task &task, schedules::Work work);

/// The values that cross between the stage functions of one entry.
class StageValues {
public:
  /// `functions` by stage.
  explicit StageValues(llvm::ArrayRef<mlir::func::FuncOp> functions);

  struct Made {
    int64_t stage;
    schedules::Work work;
    mlir::Type type;
  };
  const Made &getMade(int64_t value) const { return made.at(value); }
  /// Numbers of what a task on a stage makes for others, and of what it takes from others.
  llvm::SmallVector<int64_t> getMadeBy(int64_t stage, const schedules::Task &task) const;
  llvm::SmallVector<int64_t> getNeededBy(int64_t stage, const schedules::Task &task) const;

private:
  using ByWork = std::pair<schedules::Work, int64_t>; ///< and the value's number
  std::map<int64_t, Made> made;
  std::vector<llvm::SmallVector<ByWork>> makes, needs; ///< by stage, in order
};

/// One value of one micro-batch on its way from a pipeline coordinate to another.
struct Message {
  int64_t value, microBatch;
  int64_t from, to; ///< coordinates
  bool isForward;   ///< made by a forward
  mlir::Type type;
  /// Places in the sender's row: it is sent behind task `sent`, and left alone until before task
  /// `released` (the row's length: after all).
  int64_t sent = 0, released = 0;
  /// Places in the receiver's row: before task `posted` it is asked for, before `used` it is there.
  int64_t posted = 0, used = 0;

  /// One way between two coordinates.
  std::string getQueue() const;
};

/// All messages under a schedule that was replayed with any times, those of a queue in the order
/// of the queue. Each is asked for one task ahead of its use, and released when, by the replay's
/// clock, it has been asked for: so every wait is for what happens before it.
std::vector<Message> planMessages(const StageValues &values, const schedules::PipelineSchedule &table,
                                  const schedules::Replay &replay);

} // namespace parashard::ps

#endif
