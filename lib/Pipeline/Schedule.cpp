// The pass ps-schedule: stage functions become programs of entries in order.
#include "lib/IR/Stages.h"
#include "lib/Pipeline/Passes.h"
#include "lib/Pipeline/Programs.h"
#include "parashard/Import.h"
#include "parashard/Levels.h"
#include "parashard/Training.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace parashard::ps {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {
/// "micro_batch" of `stage3.micro_batch`.
StringRef getEntry(func::FuncOp stage) { return stage.getName().split('.').second; }

/// Builds the programs of one entry on all pipeline coordinates.
class PipelineScheduler {
public:
  /// `functions` by stage; `table` says what runs when, `replay` on one clock.
  PipelineScheduler(ArrayRef<func::FuncOp> functions, const schedules::PipelineSchedule &table,
                    const schedules::Replay &replay)
      : functions(functions), table(table), values(functions),
        messages(planMessages(values, table, replay)) {}

  /// What a coordinate runs, with its messages.
  void build(ProgramBuilder &program, int64_t coordinate) {
    Coordinate state;
    const std::vector<schedules::Task> &row = table.rows[coordinate];
    std::vector<AtPlace> places(row.size() + 1);
    for (auto [i, message] : llvm::enumerate(messages)) {
      if (message.to == coordinate) {
        places[message.posted].posted.push_back(i);
        places[message.used].used.push_back(i);
      } else if (message.from == coordinate) {
        places[message.sent + 1].sent.push_back(i);
        places[message.released].released.push_back(i);
      }
    }
    for (auto [place, at] : llvm::enumerate(places)) {
      func::FuncOp first = functions.front();
      Location loc = first.getLoc();
      for (size_t i : at.sent)
        state.tokens[i] = program.addSend(loc, state.crossing.at(getKey(messages[i])), messages[i]);
      // All that is started comes before all that is waited for: no wait is for one behind it.
      for (size_t i : at.posted)
        std::tie(state.crossing[getKey(messages[i])], state.tokens[i]) =
            program.addReceive(loc, messages[i]);
      for (size_t i : at.released)
        program.addWait(loc, state.tokens.at(i));
      for (size_t i : at.used)
        program.addWait(loc, state.tokens.at(i));
      if (place < row.size())
        runTask(program, state, coordinate, row[place]);
    }
  }

private:
  using Key = std::pair<int64_t, int64_t>; ///< a value's number, and the micro-batch
  /// Messages, by number, that something is done with in front of a task.
  struct AtPlace {
    SmallVector<size_t> sent, posted, released, used;
  };
  struct Coordinate {
    std::map<Key, Value> crossing; ///< made here, or received
    std::map<size_t, Value> tokens;
    std::map<Key, IRMapping> stages; ///< by stage and micro-batch: what stands for its values
  };

  static Key getKey(const Message &message) { return {message.value, message.microBatch}; }

  void runTask(ProgramBuilder &program, Coordinate &state, int64_t coordinate,
               const schedules::Task &task) {
    int64_t stage = table.placement.getStage(coordinate, task.chunk);
    func::FuncOp function = functions[stage];
    IRMapping &mapping = state.stages[{stage, task.microBatch}];
    for (BlockArgument argument : function.getArguments())
      if (auto number =
              function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), rank::kValueMark))
        if (auto value = state.crossing.find({number.getInt(), task.microBatch});
            value != state.crossing.end())
          mapping.map(argument, value->second);
    program.addPart(function, task.microBatch, mapping,
                    [&](Operation *op) { return doesWork(task, getWork(op)); });
    Operation *end = function.getBody().front().getTerminator();
    for (auto [i, result] : llvm::enumerate(end->getOperands()))
      if (auto number = function.getResultAttrOfType<IntegerAttr>(i, rank::kValueMark);
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
    if (microBatches < 1 || microBatches > schedules::kMostMicroBatches) {
      getOperation().emitError("a step has ")
          << int64_t(microBatches) << " micro-batches; give at least 1, and at most "
          << schedules::kMostMicroBatches;
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
      if (auto stage = function->getAttrOfType<IntegerAttr>(rank::kStageMark))
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
    return function->getAttrOfType<IntegerAttr>(rank::kStageMark).getInt();
  }

  void warnOfUnevenLoss() {
    getOperation().emitWarning()
        << "the loss, or a term of it, is no average over samples: a mean over what a micro-batch "
           "counts (labels that are not ignored) within another function, or a root, a norm or a "
           "variance over the batch, such as that of batch norms; a step puts it together from its "
        << int64_t(microBatches)
        << " micro-batches (sums and counts are added up, all else is averaged), which differs "
           "from the loss of the whole batch; --loss-average "
           "micro-batch says that this is meant, --micro-batches 1 avoids it";
  }

  void warnOfBatchNumber(Location where) {
    emitWarning(where)
        << "the model computes with the number of samples here, which is that of one of "
        << int64_t(microBatches)
        << " micro-batches and not that of the whole batch; --loss-average micro-batch says that "
           "this is meant, --micro-batches 1 avoids it";
  }

  void warnOfAmbiguousMean(Location where) {
    emitWarning(where)
        << "the loss divides a sum over samples by a constant here (or multiplies it by one), "
           "which is taken for their mean: a step averages it over its "
        << int64_t(microBatches)
        << " micro-batches; --loss-average micro-batch says that this is meant; if the constant "
           "counts no samples, give a micro-batch another number of them (--batch, or in the "
           "export)";
  }

  /// The function of an entry on a stage (of what is not by stages: on a coordinate).
  func::FuncOp find(StringRef entry, int64_t stage) {
    auto known = entries.find(entry);
    return known == entries.end() ? func::FuncOp() : known->second[stage];
  }

  static bool isForward(Operation *op) {
    auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
    return !phase || phase.getValue() == Phase::Forward;
  }

  /// Without a loss the host calls forward, backward and update apart.
  static bool isDrivenByHost(func::FuncOp microBatch) {
    for (unsigned i = 0; i < microBatch.getNumResults(); ++i)
      if (!microBatch.getResultAttr(i, rank::kValueMark))
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
    if (llvm::any_of(entries["micro_batch"], isDrivenByHost))
      return scheduleApart();
    FailureOr<schedules::PipelineSchedule> table = getPipelineSchedule();
    if (failed(table))
      return failure();
    schedules::PipelineTimes equalTimes;
    equalTimes.stages.resize(stages.getCount());
    auto replay = schedules::replay(*table, equalTimes);
    if (!replay)
      return getOperation().emitError() << "--schedule: " << llvm::toString(replay.takeError());
    if (stages.getCount() > 1) {
      Builder b(&getContext());
      getOperation()->setAttr(kScheduleMark, b.getStringAttr(table->name));
      getOperation()->setAttr(kMicroBatchesMark, b.getI64IntegerAttr(microBatches));
    }
    PipelineScheduler scheduler(entries["micro_batch"], *table, *replay);
    for (int64_t pp = 0; pp < stages.placement.ranks; ++pp) {
      ProgramBuilder program(getOperation(), "pp" + std::to_string(pp), pp, "step", bucketBytes);
      if (func::FuncOp count = find("count", pp)) // known before a step's first micro-batch
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
      return getOperation().emitError()
             << "--loss none: the host calls forward and backward apart, which is not built yet "
                "for "
                "the stages of a pipeline; use a mesh without a pipeline axis";
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

  /// One micro-batch through all stages.
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
      scheduler.build(program, pp);
    }
  }

  FailureOr<schedules::PipelineSchedule> getPipelineSchedule() {
    auto table = schedules::findPipelineSchedule(schedule, stages.placement, microBatches);
    if (table)
      return std::move(*table);
    return getOperation().emitError() << "--schedule: " << llvm::toString(table.takeError());
  }

  Stages stages;
  llvm::MapVector<StringRef, SmallVector<func::FuncOp>> entries; ///< by stage
};
} // namespace
} // namespace parashard::ps
