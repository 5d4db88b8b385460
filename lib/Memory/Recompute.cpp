// Implements ps-recompute: recomputes forward values for backward instead of saving them.
#include "RecomputeBudget.h"
#include "RecomputeTime.h"
#include "Recomputer.h"
#include "dialects/ps/Refusal.h"
#include "dialects/rank/Rank.h"
#include "lib/IR/ModulePath.h"
#include "lib/IR/OpTimes.h"
#include "lib/IR/Stages.h"
#include "lib/Pipeline/Layers.h"
#include "lib/Support/Bytes.h"
#include "mlir/Pass/Pass.h"
#include "shared/Globs.h"
#include "shared/NearestNames.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::pipeline;
using namespace parashard::ps;
using namespace parashard::support;

namespace parashard::memory {

#define GEN_PASS_DECL_RECOMPUTEPASS
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "lib/Memory/Passes.h.inc"

namespace {

/// The parsed option `mode`.
struct Choice {
  enum class Kind { Selective, Full, Modules, Budget };
  Kind kind = Kind::Full;
  bool repeatsCommunication = false; ///< full+communication
  SmallVector<std::string> globs;    ///< globs of module paths, for kind `Modules`
  int64_t bytes = 0;                 ///< the budget, for kind `Budget`
};

bool matchesModule(StringRef path, StringRef glob) {
  for (; !path.empty(); path = path.rsplit('.').first) {
    if (matchesGlob(glob, path))
      return true;
    if (!path.contains('.'))
      return false;
  }
  return false;
}

/// Chooses and recomputes ops for all modes except budgets.
class Chooser {
public:
  Chooser(const Recomputer &recomputer, const Choice &choice)
      : recomputer(recomputer), choice(choice) {}

  void run() {
    for (auto &[number, segment] : recomputer.getSegments())
      if (segment.firstBackward &&
          !(choice.kind == Choice::Kind::Full && recomputer.isLast(number)))
        recomputer.run(number, choose(number, segment));
  }

private:
  bool isSelective() const { return choice.kind == Choice::Kind::Selective; }

  /// Returns true if the mode allows the op to run again.
  bool mayRunAgain(Operation *op) const {
    if (!recomputer.canRunAgain(op, choice.repeatsCommunication))
      return false;
    if (isSelective())
      return isCheap(op);
    std::optional<StringRef> path = getModulePath(op->getLoc());
    return choice.kind == Choice::Kind::Full ||
           (path && llvm::any_of(choice.globs, [&](const std::string &glob) {
              return matchesModule(*path, glob);
            }));
  }

  /// Returns true for ops that take about as long as reading their operands. Excludes contractions,
  /// collectives and ops of kind `Library`, such as sorts.
  static bool isCheap(Operation *op) {
    auto lowering = dyn_cast<LoweringOpInterface>(op);
    if (!lowering || lowering.getLoweringKind() == LoweringKind::Library ||
        lowering.getLoweringKind() == LoweringKind::Collective)
      return false;
    auto priced = dyn_cast<CostOpInterface>(op);
    return !priced ||
           priced.getCost(op->getOperandTypes(), op->getResultTypes()).contractionFlops == 0;
  }

  /// Returns the ops of the segment that run again, and the values that need not be saved.
  Rerun choose(int64_t number, const ForwardSegment &segment) const {
    Rerun rerun;
    DenseSet<Operation *> own(segment.forward.begin(), segment.forward.end());
    for (Operation *op : segment.forward) {
      if (!mayRunAgain(op))
        continue;
      // In selective mode, operands must be saved anyway or computed by other selected ops.
      bool fromKept = llvm::all_of(op->getOperands(), [&](Value operand) {
        Operation *producer = operand.getDefiningOp();
        return !producer || !own.contains(producer) || rerun.ops.contains(producer) ||
               Recomputer::isKept(operand, number);
      });
      if (isSelective() && !fromKept)
        continue;
      rerun.ops.insert(op);
      for (Value result : op->getResults())
        if (Recomputer::isKept(result, number) && !(isSelective() && isSmall(result)))
          rerun.dropped.insert(result);
    }
    return rerun;
  }

  /// Returns true if an operand of the value's producer has at least 8 times the bytes of the
  /// value. Saving such a value costs little memory. Example: the rstd of a norm.
  static bool isSmall(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    Operation *op = value.getDefiningOp();
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      auto from = dyn_cast<RankedTensorType>(operand.getType());
      return from && getByteSize(type) * 8 <= getByteSize(from);
    });
  }

  const Recomputer &recomputer;
  const Choice &choice;
};

struct RecomputePass : impl::RecomputePassBase<RecomputePass> {
  using RecomputePassBase::RecomputePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Choice choice;
    if (mode == "none")
      return;
    if (failed(parse(choice)) || failed(run(module, choice)))
      return signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module, const Choice &choice) {
    auto function = module.lookupSymbol<func::FuncOp>("micro_batch");
    FailureOr<costs::Cluster> cluster = ir::findCluster(module);
    if (failed(cluster))
      return failure();
    const costs::Device &device = cluster->device;
    if (choice.kind == Choice::Kind::Budget) {
      StringRef bytes = StringRef(mode).drop_front(strlen("budget="));
      if (failed(recomputeUnderBudget(module, {choice.bytes, bytes.str(), then}, device)))
        return failure();
    } else if (function) {
      if (failed(checkGlobs(function, choice)))
        return failure();
      Chooser(Recomputer(function), choice).run();
    }
    if (!function)
      return success();
    module->setAttr(
        kRecomputeMark,
        StringAttr::get(&getContext(), mode + ": " + describeRecompute(function, device)));
    if (Stages stages = getStages(module); stages.getCount() > 1)
      setStageCosts(module, addUpStages(findLayers(function, device), stages));
    return success();
  }

  LogicalResult parse(Choice &choice) {
    StringRef text = mode;
    choice.repeatsCommunication = text == "full+communication";
    if (text == "full" || choice.repeatsCommunication)
      return success();
    if (text == "selective") {
      choice.kind = Choice::Kind::Selective;
      return success();
    }
    if (text.consume_front("budget="))
      return parseBudget(text, choice);
    if (!text.consume_front("modules=") || text.empty())
      return refuseFlag(getOperation(), "recompute " + mode)
             << " is not valid; use none, selective, full, full+communication, modules=GLOB,... or "
                "budget=BYTES";
    choice.kind = Choice::Kind::Modules;
    SmallVector<StringRef> globs;
    text.split(globs, ',');
    for (StringRef glob : globs)
      choice.globs.push_back(glob.str());
    return success();
  }

  LogicalResult parseBudget(StringRef text, Choice &choice) {
    choice.kind = Choice::Kind::Budget;
    llvm::Expected<int64_t> bytes = parseBytes(text);
    if (!bytes)
      return refuseFlag(getOperation(), "recompute budget")
             << ": " << llvm::toString(bytes.takeError());
    choice.bytes = *bytes;
    if (!then.empty())
      return success();
    return refuseFlag(getOperation(), "recompute budget")
           << " measures memory by running later passes; set option `then` to the passes up to "
              "level placed; the first line of each dump of ps-compile --dump-dir lists the passes "
              "of its level";
  }

  LogicalResult checkGlobs(func::FuncOp function, const Choice &choice) {
    llvm::SetVector<StringRef> paths;
    for (Operation &op : function.getBody().front())
      if (std::optional<StringRef> path = getModulePath(op.getLoc()); path && !path->empty())
        paths.insert(*path);
    for (const std::string &glob : choice.globs)
      if (llvm::none_of(paths, [&](StringRef path) { return matchesModule(path, glob); })) {
        std::vector<std::string> names;
        for (StringRef path : paths)
          names.push_back(path.str());
        return refuseFlag(getOperation(), "recompute modules=" + glob)
               << " matches no module of the model" << describeNearest(glob, names);
      }
    return success();
  }
};
} // namespace

} // namespace parashard::memory
