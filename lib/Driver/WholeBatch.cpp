// Checks a loss that is an average over samples for one micro-batch: it must be such an average for
// the batch of a whole step, too. Example: `h[:4]` selects all samples of a micro-batch of 4, but
// half of the samples of a step with two micro-batches.
#include "dialects/ps/Marks.h"
#include "lib/Driver/Load.h"
#include "mlir/IR/Diagnostics.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringRef.h"

using namespace mlir;
using namespace parashard::import;

namespace parashard::driver {

/// Returns true if the check is not needed, or if a mark of `module` makes `ps-schedule` warn
/// anyway.
static bool isSettled(ModuleOp module, const CompileOptions &options) {
  return getLevel(module) < ps::Level::Training || options.microBatches <= 1 || options.inference ||
         options.loss == "none" || !options.lossAverage.empty() ||
         module->hasAttr(kUnevenLossMark) || module->hasAttr(kBatchNumberMark) ||
         module->hasAttr(kAmbiguousMeanMark);
}

/// Imports the model with the batch of a whole step, and lowers it to level `training`. Returns
/// null if the model does not accept this batch.
static OwningOpRef<ModuleOp> trainWholeBatch(MLIRContext &context, CompileOptions options) {
  ImportOptions import = getImportOptions(options);
  import.batchFactor = options.microBatches;
  std::vector<std::string> notes;
  OwningOpRef<ModuleOp> module = importModel(context, options.model, import, notes);
  options.microBatches = 1;
  WalkOptions walk;
  walk.stopAfter = ps::Level::Training;
  if (!module || failed(runWalk(*module, options, walk)))
    return nullptr;
  return module;
}

void warnOfWholeBatch(ModuleOp module, const CompileOptions &options) {
  if (StringRef(options.model).ends_with(".mlir") || isSettled(module, options))
    return;
  OwningOpRef<ModuleOp> whole;
  {
    // The compile of the micro-batch prints the same messages.
    ScopedDiagnosticHandler silence(module.getContext(), [](Diagnostic &) { return success(); });
    whole = trainWholeBatch(*module.getContext(), options);
  }
  if (!whole || !(*whole)->hasAttr(kUnevenLossMark))
    return;
  emitWarning(UnknownLoc::get(module.getContext()))
      << "the loss is an average over samples for a micro-batch of this size, but not for the "
         "whole batch of a step: the model takes or groups a fixed number of samples, such as "
         "h[:4] or h.view(-1, 4, 8); a step averages the losses of its "
      << describeCount(options.microBatches, "micro-batch")
      << "; use --loss-average micro-batch if this is intended, or --micro-batches 1 "
         "to avoid it";
}

} // namespace parashard::driver
