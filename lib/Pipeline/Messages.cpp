// Plans messages from a schedule.
#include "lib/Pipeline/Messages.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::pipeline {

using schedules::Task;
using schedules::Work;

Work getWork(Operation *run) {
  auto phase = run->getAttrOfType<PhaseAttr>(kPhaseMark);
  switch (phase ? phase.getValue() : Phase::Forward) {
  case Phase::BackwardInput:
    return Work::BackwardInput;
  case Phase::BackwardWeight:
    return Work::BackwardWeight;
  default:
    return Work::Forward;
  }
}

bool doesWork(const Task &task, Work work) {
  if (task.work == Work::Backward)
    return work == Work::BackwardInput || work == Work::BackwardWeight;
  return task.work == work;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

StageValues::StageValues(ArrayRef<func::FuncOp> functions)
    : outputs(functions.size()), inputs(functions.size()) {
  for (auto [stage, of] : llvm::enumerate(functions)) {
    func::FuncOp function = of;
    Operation *end = function.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(end->getOperands()))
      if (auto number = function.getResultAttrOfType<IntegerAttr>(i, kValueMark)) {
        Work work = value.getDefiningOp() ? getWork(value.getDefiningOp()) : Work::Forward;
        produced[number.getInt()] = {int64_t(stage), work, value.getType()};
        outputs[stage].push_back({work, number.getInt()});
      }
    for (BlockArgument argument : function.getArguments())
      if (auto number = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kValueMark))
        for (Operation *user : argument.getUsers())
          if (ByWork need{getWork(user), number.getInt()}; !llvm::is_contained(inputs[stage], need))
            inputs[stage].push_back(need);
  }
}

template <typename List> static SmallVector<int64_t> select(const List &list, const Task &task) {
  SmallVector<int64_t> result;
  for (auto &[work, value] : list)
    if (doesWork(task, work) && !llvm::is_contained(result, value))
      result.push_back(value);
  return result;
}

SmallVector<int64_t> StageValues::getProducedBy(int64_t stage, const Task &task) const {
  return select(outputs[stage], task);
}
SmallVector<int64_t> StageValues::getNeededBy(int64_t stage, const Task &task) const {
  return select(inputs[stage], task);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

std::string Message::getQueue() const {
  return (isForward ? "act." : "grad.") + std::to_string(from) + "-" + std::to_string(to);
}

namespace {
class MessagePlanner {
public:
  MessagePlanner(const StageValues &values, const schedules::PipelineSchedule &table,
                 const schedules::Replay &replay)
      : values(values), table(table), replay(replay) {}

  std::vector<Message> plan() {
    findUses();
    for (int64_t from = 0; from < table.placement.ranks; ++from)
      addSent(from);
    for (auto &[queue, members] : queues)
      setTimes(members);
    return std::move(messages);
  }

private:
  int64_t getStage(int64_t coordinate, const Task &task) const {
    return table.placement.getStage(coordinate, task.chunk);
  }

  /// Finds, for each coordinate and each value of a micro-batch, the first task that uses the
  /// value.
  void findUses() {
    uses.resize(table.placement.ranks);
    for (int64_t to = 0; to < table.placement.ranks; ++to)
      for (auto [index, task] : llvm::enumerate(table.rows[to]))
        for (int64_t value : values.getNeededBy(getStage(to, task), task))
          uses[to].try_emplace({value, task.microBatch}, index);
  }

  /// Adds the messages that a coordinate sends, in the order of its tasks.
  void addSent(int64_t from) {
    for (auto [index, task] : llvm::enumerate(table.rows[from]))
      for (int64_t value : values.getProducedBy(getStage(from, task), task))
        for (int64_t to = 0; to < table.placement.ranks; ++to) {
          auto use = uses[to].find({value, task.microBatch});
          if (to == from || use == uses[to].end())
            continue;
          const StageValues::Produced &produced = values.getProduced(value);
          Message message{value,        task.microBatch, from, to, produced.work == Work::Forward,
                          produced.type};
          message.sent = index;
          message.used = use->second;
          queues[message.getQueue()].push_back(messages.size());
          messages.push_back(message);
        }
  }

  /// Sets `used`, `posted` and `released` of a queue's messages. The wait for a message is not
  /// later than the wait for the next message, because messages arrive in the sender's order.
  void setTimes(ArrayRef<size_t> members) {
    int64_t used = std::numeric_limits<int64_t>::max(), released = 0;
    for (size_t i : llvm::reverse(members)) {
      Message &message = messages[i];
      message.used = used = std::min(used, message.used);
      message.posted = std::max<int64_t>(0, used - 1);
    }
    for (size_t i : members) {
      Message &message = messages[i];
      const std::vector<schedules::Span> &row = replay.rows[message.from];
      double asked = replay.rows[message.to][message.posted].begin;
      int64_t index = message.sent + 1;
      while (index < int64_t(row.size()) && row[index].begin < asked)
        ++index;
      message.released = released = std::max(released, index);
    }
  }

  const StageValues &values;
  const schedules::PipelineSchedule &table;
  const schedules::Replay &replay;
  /// By coordinate: the first task that needs a value, by (value, micro-batch).
  std::vector<std::map<std::pair<int64_t, int64_t>, int64_t>> uses;
  std::map<std::string, std::vector<size_t>> queues;
  std::vector<Message> messages;
};
} // namespace

std::vector<Message> planMessages(const StageValues &values,
                                  const schedules::PipelineSchedule &table,
                                  const schedules::Replay &replay) {
  return MessagePlanner(values, table, replay).plan();
}

} // namespace parashard::pipeline
