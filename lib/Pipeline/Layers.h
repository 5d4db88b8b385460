// The layers that a pipeline is cut between: segments, and what each weighs.
#ifndef PARASHARD_LIB_PIPELINE_LAYERS_H
#define PARASHARD_LIB_PIPELINE_LAYERS_H

#include "lib/IR/Stages.h"
#include <string>
#include <vector>

namespace parashard::ps {

/// One segment. Sizes are of what one rank holds, of one micro-batch.
struct Layer {
  std::string name; ///< module path of its block, or of what it does first
  /// Of its forward ops: paths of modules, in order.
  std::vector<std::string> modules;
  int64_t parameters = 0; ///< elements of those it reads (tied ones count in each reader)
  int64_t forwardFlops = 0;
  int64_t backwardInputFlops = 0;
  int64_t backwardWeightFlops = 0;
  int64_t activationBytes = 0; ///< made in forward, used by its backward
  int64_t boundaryBytes = 0;   ///< sent, both ways, by a cut between it and the next

  int64_t getBackwardFlops() const { return backwardInputFlops + backwardWeightFlops; }
};

/// The layers of `function`, whose ops have segments and shardings (level 2).
std::vector<Layer> findLayers(mlir::func::FuncOp function);

/// What each stage does: its layers' sums.
std::vector<StageCost> addUpStages(llvm::ArrayRef<Layer> layers, const Stages &stages);

/// The function that stages are cut from: `@micro_batch`, else `@evaluate`; null when the module
/// has neither.
mlir::func::FuncOp getCutFunction(mlir::ModuleOp module);

} // namespace parashard::ps

#endif
