// The pass ps-schedule: stage functions become programs of entries in order.
#include "lib/Pipeline/Passes.h"
#include "lib/Pipeline/Programs.h"
#include "parashard/Levels.h"
#include "parashard/Training.h"

using namespace mlir;

namespace parashard::ps {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {
constexpr llvm::StringLiteral kStagePrefix = "stage0.";

struct SchedulePass : impl::SchedulePassBase<SchedulePass> {
  using SchedulePassBase::SchedulePassBase;

  void runOnOperation() override {
    if (failed(checkLevel(getOperation(), Level::Partitioned, getArgument())))
      return signalPassFailure();
    if (microBatches < 1) {
      getOperation().emitError("a step has ")
          << int64_t(microBatches) << " micro-batches; give at least 1";
      return signalPassFailure();
    }
    if (microBatches > 1 && getOperation()->hasAttr(kUnevenLossMark))
      warnOfUnevenLoss();
    SmallVector<func::FuncOp> stages;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(rank::kStageMark))
        stages.push_back(function);
    if (func::FuncOp microBatch = find(stages, "micro_batch"))
      scheduleStep(find(stages, "count"), microBatch, find(stages, "update"));
    for (func::FuncOp stage : stages)
      if (StringRef entry = getEntry(stage);
          entry != "count" && entry != "micro_batch" && entry != "update")
        ProgramBuilder(getOperation(), (entry + ".pp0").str(), entry, bucketBytes)
            .addMicroBatch(stage, 0);
    for (func::FuncOp stage : stages)
      stage.erase();
    getOperation()->setAttr(kLevelMark, LevelAttr::get(&getContext(), Level::Scheduled));
  }

private:
  void warnOfUnevenLoss() {
    getOperation().emitWarning()
        << "the loss, or a term of it, is no average over samples: a mean over what a micro-batch "
           "counts (labels that are not ignored) within another function, or a root, a norm or a "
           "variance over the batch; a step averages it over its "
        << int64_t(microBatches)
        << " micro-batches, which differs from the loss of the whole batch; --loss-average "
           "micro-batch says that this is meant, --micro-batches 1 avoids it";
  }

  static StringRef getEntry(func::FuncOp stage) {
    StringRef name = stage.getName();
    name.consume_front(kStagePrefix);
    return name;
  }

  static func::FuncOp find(ArrayRef<func::FuncOp> stages, StringRef entry) {
    for (func::FuncOp stage : stages)
      if (getEntry(stage) == entry)
        return stage;
    return {};
  }

  static bool isForward(Operation *op) {
    auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
    return !phase || phase.getValue() == Phase::Forward;
  }

  /// Without a loss the host calls forward, backward and update apart.
  static bool isDrivenByHost(func::FuncOp microBatch) {
    if (microBatch.getNumResults() > 0)
      return true;
    for (unsigned i = 0; i < microBatch.getNumArguments(); ++i)
      if (microBatch.getArgAttr(i, kCotangentMark))
        return true;
    return false;
  }

  void scheduleStep(func::FuncOp count, func::FuncOp microBatch, func::FuncOp update) {
    bool apart = isDrivenByHost(microBatch);
    ProgramBuilder program(getOperation(), "pp0", apart ? "forward" : "step", bucketBytes);
    if (apart) {
      IRMapping values;
      program.addPart(microBatch, 0, values, isForward);
      program.addOutputs(microBatch, 0, values);
      program.addSection("backward");
      program.addPart(microBatch, 0, values, [](Operation *op) { return !isForward(op); });
      program.addSection("update");
    } else {
      if (count) // what a step counts is known before its first micro-batch
        for (int64_t m = 0; m < microBatches; ++m)
          program.addMicroBatch(count, m);
      for (int64_t m = 0; m < microBatches; ++m)
        program.addMicroBatch(microBatch, m);
    }
    if (update)
      program.addUpdate(update);
  }
};
} // namespace
} // namespace parashard::ps
