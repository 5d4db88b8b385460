// ps-verify-training: checks the constraints of level 1.
#include "dialects/ps/Entries.h"
#include "dialects/ps/VerifyModule.h"
#include "lib/IR/Symbols.h"
#include "parashard/Training.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::training {

static LogicalResult verifyOps(func::FuncOp function, llvm::StringSet<> &accumulated) {
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (!getPhase(&op)) // module_c4 restricts the phases
      return op.emitOpError("(training_c3) has no phase; every op of @")
             << function.getName() << " needs " << kPhaseMark;
    auto accumulate = dyn_cast<AccumulateOp>(op);
    if (accumulate && accumulate.getVariable())
      accumulated.insert(*accumulate.getVariable());
    auto write = dyn_cast<WriteOp>(op);
    if (write && (function.getName() == "evaluate" || function.getName() == "count"))
      return write.emitOpError("(training_c4) is not allowed in @")
             << function.getName() << ", which must not write variables";
  }
  return success();
}

LogicalResult verifyTraining(ModuleOp module) {
  auto level = module->getAttrOfType<LevelAttr>(kLevelMark);
  if (!level || level.getValue() < Level::Training)
    return module.emitError("(training_c1) is not at level training; run ps-autodiff first");
  llvm::StringSet<> accumulated;
  bool inference = !module.lookupSymbol("micro_batch") && !module.lookupSymbol("update");
  for (llvm::StringRef name : {"count", "micro_batch", "evaluate", "update"}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    bool isOptional = name == "count" || (inference && name != "evaluate");
    if (!function && isOptional) // @count exists only if the loss needs it
      continue;
    if (!function)
      return module.emitError("(training_c2) has no function @") << name;
    if (failed(verifyOps(function, accumulated)))
      return failure();
  }
  for (auto function : module.getOps<func::FuncOp>())
    if (isInferenceEntry(function) && failed(verifyOps(function, accumulated)))
      return failure();
  for (auto variable : module.getOps<VariableOp>())
    if (variable.getKind() == VariableKind::Gradient &&
        !accumulated.contains(variable.getSymName()))
      return variable.emitOpError(
          "(training_c5) is a gradient that @micro_batch does not accumulate");
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
