// ps-verify-training: checks the constraints of level 1.
#include "dialects/ps/VerifyModule.h"
#include "lib/IR/Symbols.h"
#include "parashard/Training.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::training {

/// Returns the phases that the ops of a function may have; empty if level 1 has no such function.
static llvm::SmallVector<Phase> getPhasesOf(llvm::StringRef function) {
  if (function == "micro_batch")
    return {Phase::Forward, Phase::BackwardInput, Phase::BackwardWeight};
  if (function == "count")
    return {Phase::Forward};
  if (function == "evaluate")
    return {Phase::Evaluate};
  if (function == "update")
    return {Phase::Update};
  return {};
}

/// Checks that the phase of an op is allowed in the function, and is not earlier than the phase of
/// an operand.
static LogicalResult verifyPhase(Operation *op, llvm::StringRef function) {
  auto phase = getPhase(op);
  if (!phase)
    return op->emitOpError("has no phase; every op of @") << function << " needs " << kPhaseMark;
  if (!llvm::is_contained(getPhasesOf(function), *phase))
    return op->emitOpError("has phase ") << stringifyPhase(*phase) << " in @" << function;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      if (auto before = getPhase(producer); before && *before > *phase)
        return op->emitOpError("of phase ")
               << stringifyPhase(*phase) << " reads a value of phase " << stringifyPhase(*before);
  return success();
}

static LogicalResult verifyOps(func::FuncOp function, llvm::StringSet<> &accumulated) {
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (failed(verifyPhase(&op, function.getName())))
      return failure();
    auto accumulate = dyn_cast<AccumulateOp>(op);
    if (accumulate && accumulate.getVariable())
      accumulated.insert(*accumulate.getVariable());
    auto write = dyn_cast<WriteOp>(op);
    if (write && (function.getName() == "evaluate" || function.getName() == "count"))
      return write.emitOpError("is not allowed in @")
             << function.getName() << ", which must not write variables";
  }
  return success();
}

LogicalResult verifyTraining(ModuleOp module) {
  auto level = module->getAttrOfType<LevelAttr>(kLevelMark);
  if (!level || level.getValue() < Level::Training)
    return module.emitError("is not at level training; run ps-autodiff first");
  llvm::StringSet<> accumulated;
  bool inference = !module.lookupSymbol("micro_batch") && !module.lookupSymbol("update");
  for (llvm::StringRef name : {"count", "micro_batch", "evaluate", "update"}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    bool isOptional = name == "count" || (inference && name != "evaluate");
    if (!function && isOptional) // @count exists only if the loss needs it
      continue;
    if (!function)
      return module.emitError("has no function @") << name;
    if (failed(verifyOps(function, accumulated)))
      return failure();
  }
  for (auto variable : module.getOps<VariableOp>())
    if (variable.getKind() == VariableKind::Gradient &&
        !accumulated.contains(variable.getSymName()))
      return variable.emitOpError("is a gradient that @micro_batch does not accumulate");
  return success();
}

#define GEN_PASS_DEF_VERIFYTRAININGPASS
#include "lib/Training/Passes.h.inc"

namespace {
struct VerifyTrainingPass : impl::VerifyTrainingPassBase<VerifyTrainingPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(ps::verifyModule(getOperation())) || failed(verifyTraining(getOperation())))
      signalPassFailure();
  }
};
} // namespace

} // namespace parashard::training
