// Implements ps-check-mode, which warns if a model to be trained was exported in eval mode.
#include "dialects/ps/Entries.h"
#include "dialects/ps/Ps.h"
#include "parashard/Import.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::import {

/// Returns p of a dropout that is off in training, or 0 for other ops.
static double getIdleDropout(Operation *op) {
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return dropout.getTraining() ? 0 : dropout.getP().convertToDouble();
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getTraining() ? 0 : attention.getDropout().convertToDouble();
  return 0;
}

/// Warns once if batch norms would train with running statistics.
static void warnOfRunningStatistics(ModuleOp module) {
  Operation *first = nullptr;
  module.walk([&](ByModeOp op) {
    if (!op.getTraining() && !first && !isInferenceEntry(op->getParentOp()))
      first = op;
  });
  if (first)
    first->emitWarning("the model was exported in eval mode: its batch norms train with their "
                       "running statistics, which do not change; to train with batch "
                       "statistics, call model.train() and export with torch.export.export "
                       "(torch.onnx.export always writes the evaluation form)");
}

void warnOfEvalMode(ModuleOp module) {
  Operation *first = nullptr;
  int64_t count = 0;
  module.walk([&](Operation *op) {
    if (getIdleDropout(op) > 0 && !isInferenceEntry(op->getParentOp()) && ++count == 1)
      first = op;
  });
  warnOfRunningStatistics(module);
  if (!first)
    return;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", getIdleDropout(first));
  first->emitWarning("the model was exported in eval mode: it trains with dropout off (p = ")
      << text << " here, " << count << (count == 1 ? " dropout" : " dropouts") << " in total); "
      << "call model.train() before the export to train with dropout";
}

} // namespace parashard::import
