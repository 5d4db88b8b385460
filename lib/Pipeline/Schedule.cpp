// Implements ps-schedule: builds programs from stage functions, in the order of a schedule.
#include "dialects/ps/Entries.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/Stages.h"
#include "lib/Pipeline/Passes.h"
#include "lib/Pipeline/Programs.h"
#include "parashard/Import.h"
#include "parashard/Levels.h"
#include "parashard/Training.h"
#include "shared/Counts.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::pipeline {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {
/// Returns the entry of a stage function. Example: "micro_batch" for `stage3.micro_batch`.
StringRef getEntry(func::FuncOp stage) { return stage.getName().split('.').second; }

/// Builds the programs of one entry on all pipeline coordinates.
class PipelineScheduler {
public:
  /// `functions` must be in order of stages. `replay` is a simulation of `table`.
  PipelineScheduler(ArrayRef<func::FuncOp> functions, const schedules::PipelineSchedule &table,
                    const schedules::Replay &replay)
      : functions(functions), table(table), values(functions),
        messages(planMessages(values, table, replay)) {}

  /// Appends all tasks and messages of a coordinate.
  void build(ProgramBuilder &program, int64_t coordinate) {
    Coordinate state;
    const std::vector<schedules::Task> &row = table.rows[coordinate];
    std::vector<Actions> actions(row.size() + 1);
    for (auto [i, message] : llvm::enumerate(messages)) {
      if (message.to == coordinate) {
        actions[message.posted].posted.push_back(i);
        actions[message.used].used.push_back(i);
      } else if (message.from == coordinate) {
        actions[message.sent + 1].sent.push_back(i);
        actions[message.released].released.push_back(i);
      }
    }
    for (auto [index, at] : llvm::enumerate(actions)) {
      func::FuncOp first = functions.front();
      Location loc = first.getLoc();
      for (size_t i : at.sent)
        state.tokens[i] = program.addSend(loc, state.crossing.at(getKey(messages[i])), messages[i]);
      // All starts come before all waits, so that no wait blocks a later start.
      for (size_t i : at.posted)
        std::tie(state.crossing[getKey(messages[i])], state.tokens[i]) =
            program.addReceive(loc, messages[i]);
      for (size_t i : at.released)
        program.addWait(loc, state.tokens.at(i));
      for (size_t i : at.used)
        program.addWait(loc, state.tokens.at(i));
      if (index < row.size())
        runTask(program, state, coordinate, row[index]);
    }
  }

private:
  using Key = std::pair<int64_t, int64_t>; ///< number of a value, and micro-batch
  /// The ops to insert before a task: sends (`sent`), receives (`posted`), and waits for sends
  /// (`released`) and receives (`used`). Each list has indices of messages.
  struct Actions {
    SmallVector<size_t> sent, posted, released, used;
  };
  struct Coordinate {
    std::map<Key, Value> crossing; ///< values produced here or received
    std::map<size_t, Value> tokens;
    std::map<Key, IRMapping> stages; ///< values by stage and micro-batch
  };

  static Key getKey(const Message &message) { return {message.value, message.microBatch}; }

  void runTask(ProgramBuilder &program, Coordinate &state, int64_t coordinate,
               const schedules::Task &task) {
    int64_t stage = table.placement.getStage(coordinate, task.chunk);
    func::FuncOp function = functions[stage];
    IRMapping &mapping = state.stages[{stage, task.microBatch}];
    for (BlockArgument argument : function.getArguments())
      if (auto number = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kValueMark))
        if (auto value = state.crossing.find({number.getInt(), task.microBatch});
            value != state.crossing.end())
          mapping.map(argument, value->second);
    program.addPart(function, task.microBatch, mapping,
                    [&](Operation *op) { return doesWork(task, getWork(op)); });
    Operation *end = function.getBody().front().getTerminator();
    for (auto [i, result] : llvm::enumerate(end->getOperands()))
      if (auto number = function.getResultAttrOfType<IntegerAttr>(i, kValueMark);
          number && mapping.contains(result))
        state.crossing.try_emplace({number.getInt(), task.microBatch}, mapping.lookup(result));
    if (task.work == schedules::Work::Forward)
      program.addOutputs(function, task.microBatch, mapping);
  }

  ArrayRef<func::FuncOp> functions;
  const schedules::PipelineSchedule &table;
  StageValues values;
  std::vector<Message> messages;
};

struct SchedulePass : impl::SchedulePassBase<SchedulePass> {
  using SchedulePassBase::SchedulePassBase;

  void runOnOperation() override {
    if (failed(checkLevel(getOperation(), Level::Partitioned, getArgument())))
      return signalPassFailure();
    if (microBatches < 1 || microBatches > schedules::kMaxMicroBatches) {
      getOperation().emitError("a step has ") << describeCount(int64_t(microBatches), "micro-batch")
                                              << "; use 1 to " << schedules::kMaxMicroBatches;
      return signalPassFailure();
    }
    if (microBatches > 1 && getOperation()->hasAttr(kUnevenLossMark))
      warnOfUnevenLoss();
    if (auto where = getOperation()->getAttrOfType<LocationAttr>(kBatchNumberMark))
      if (microBatches > 1)
        warnOfBatchNumber(where);
    if (auto where = getOperation()->getAttrOfType<LocationAttr>(kAmbiguousMeanMark))
      if (microBatches > 1)
        warnOfAmbiguousMean(where);
    stages = getStages(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (auto stage = function->getAttrOfType<IntegerAttr>(kStageMark))
        entries[getEntry(function)].push_back(function);
    for (auto &[name, functions] : entries)
      llvm::sort(functions, [](func::FuncOp a, func::FuncOp b) {
        return getStageNumber(a) < getStageNumber(b);
      });
    if (failed(scheduleAll()))
      return signalPassFailure();
    for (auto &[name, functions] : entries)
      for (func::FuncOp function : functions)
        function.erase();
    getOperation()->setAttr(kLevelMark, LevelAttr::get(&getContext(), Level::Scheduled));
  }

private:
  static int64_t getStageNumber(func::FuncOp function) {
    return function->getAttrOfType<IntegerAttr>(kStageMark).getInt();
  }

  void warnOfUnevenLoss() {
    getOperation().emitWarning()
        << "the loss of " << describeCount(int64_t(microBatches), "micro-batch")
        << " differs from the loss of the whole batch, because one term (a norm or "
           "a variance over the batch, a function of a mean over counted labels, ...) is not a sum "
           "or a mean over samples; use --micro-batches 1, or accept the difference with "
           "--loss-average micro-batch";
  }

  void warnOfBatchNumber(Location where) {
    emitWarning(where)
        << "the model uses the batch size here, so the loss depends on the number of micro-batches "
           "("
        << int64_t(microBatches)
        << "); use --micro-batches 1, or accept the difference with --loss-average micro-batch";
  }

  void warnOfAmbiguousMean(Location where) {
    emitWarning(where)
        << "the loss multiplies or divides a sum over samples by a constant here; this term is "
           "treated as a mean over samples, so a step averages the term over its "
        << describeCount(int64_t(microBatches), "micro-batch")
        << "; use --loss-average micro-batch if this is intended; if the constant is "
           "not the number of samples, change the number of samples per micro-batch (--batch, or "
           "in the export)";
  }

  /// Returns the function of an entry for `stage`, or null if the module lacks the entry. For
  /// entries with one function per coordinate, `stage` is the coordinate.
  func::FuncOp find(StringRef entry, int64_t stage) {
    auto known = entries.find(entry);
    return known == entries.end() ? func::FuncOp() : known->second[stage];
  }

  static bool isForward(Operation *op) {
    auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
    return !phase || phase.getValue() == Phase::Forward;
  }

  /// Returns true if the host calls forward, backward and update separately (`--loss none`). With a
  /// loss, results are outputs of the step (`--keep-outputs`).
  bool isDrivenByHost(func::FuncOp microBatch) {
    if (getOperation()->hasAttr(kLossAverageMark))
      return false;
    for (unsigned i = 0; i < microBatch.getNumResults(); ++i)
      if (!microBatch.getResultAttr(i, kValueMark))
        return true;
    for (unsigned i = 0; i < microBatch.getNumArguments(); ++i)
      if (microBatch.getArgAttr(i, kCotangentMark))
        return true;
    return false;
  }

  LogicalResult scheduleAll() {
    if (entries.contains("micro_batch") && failed(scheduleStep()))
      return failure();
    for (auto &[name, functions] : entries)
      if (name != "count" && name != "micro_batch" && name != "update")
        scheduleForward(name, functions);
    return success();
  }

  LogicalResult scheduleStep() {
    if (llvm::any_of(entries["micro_batch"],
                     [&](func::FuncOp function) { return isDrivenByHost(function); }))
      return scheduleApart();
    FailureOr<schedules::PipelineSchedule> table = getPipelineSchedule();
    if (failed(table))
      return failure();
    schedules::PipelineTimes equalTimes;
    equalTimes.stages.resize(stages.getCount());
    auto replay = schedules::replay(*table, equalTimes);
    if (!replay)
      return refuseFlag(getOperation(), "schedule") << ": " << llvm::toString(replay.takeError());
    if (stages.getCount() > 1) {
      Builder b(&getContext());
      getOperation()->setAttr(kScheduleMark, b.getStringAttr(table->name));
      getOperation()->setAttr(kMicroBatchesMark, b.getI64IntegerAttr(microBatches));
    }
    PipelineScheduler scheduler(entries["micro_batch"], *table, *replay);
    for (int64_t pp = 0; pp < stages.placement.ranks; ++pp) {
      ProgramBuilder program(getOperation(), "pp" + std::to_string(pp), pp, "step", bucketBytes);
      if (func::FuncOp count = find("count", pp)) // runs for all micro-batches before any forward
        for (int64_t m = 0; m < microBatches; ++m)
          program.addMicroBatch(count, m);
      scheduler.build(program, pp);
      if (func::FuncOp update = find("update", pp))
        program.addUpdate(update);
    }
    return success();
  }

  LogicalResult scheduleApart() {
    if (stages.getCount() > 1)
      return refuseFlag(getOperation(), "loss none")
             << ": separate calls of forward and backward are not supported for the "
                "stages of a pipeline; use a mesh without a pipeline axis";
    func::FuncOp microBatch = find("micro_batch", 0);
    ProgramBuilder program(getOperation(), "pp0", 0, "forward", bucketBytes);
    IRMapping values;
    program.addPart(microBatch, 0, values, isForward);
    program.addOutputs(microBatch, 0, values);
    program.addSection("backward");
    program.addPart(microBatch, 0, values, [](Operation *op) { return !isForward(op); });
    program.addSection("update");
    if (func::FuncOp update = find("update", 0))
      program.addUpdate(update);
    return success();
  }

  /// Builds the programs of a forward-only entry: one micro-batch through all stages.
  void scheduleForward(StringRef entry, ArrayRef<func::FuncOp> functions) {
    schedules::PipelineSchedule table;
    table.placement = stages.placement;
    table.microBatches = 1;
    table.rows.resize(stages.placement.ranks);
    schedules::Replay replay;
    replay.rows.resize(stages.placement.ranks);
    for (int64_t stage = 0; stage < stages.getCount(); ++stage) {
      schedules::Task task{schedules::Work::Forward, stages.placement.getChunk(stage), 0};
      table.rows[stages.getCoordinate(stage)].push_back(task);
      replay.rows[stages.getCoordinate(stage)].push_back({task, double(stage), double(stage + 1)});
    }
    PipelineScheduler scheduler(functions, table, replay);
    for (int64_t pp = 0; pp < stages.placement.ranks; ++pp) {
      ProgramBuilder program(getOperation(), (entry + ".pp" + Twine(pp)).str(), pp, entry,
                             bucketBytes);
      if (isInferenceEntry(functions.front()))
        program.markInferenceEntry();
      scheduler.build(program, pp);
    }
  }

  FailureOr<schedules::PipelineSchedule> getPipelineSchedule() {
    auto table = schedules::findPipelineSchedule(schedule, stages.placement, microBatches);
    if (table)
      return std::move(*table);
    return refuseFlag(getOperation(), "schedule") << ": " << llvm::toString(table.takeError());
  }

  Stages stages;
  llvm::MapVector<StringRef, SmallVector<func::FuncOp>> entries; ///< in order of stages
};
} // namespace
} // namespace parashard::pipeline
