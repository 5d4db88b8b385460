// Describes a pipeline's layers (segments) and their costs.
#ifndef PARASHARD_LIB_PIPELINE_LAYERS_H
#define PARASHARD_LIB_PIPELINE_LAYERS_H

#include "lib/Costs/Cluster.h"
#include "lib/IR/Stages.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard::pipeline {

/// One segment. Sizes are per rank and per micro-batch.
struct Layer {
  std::string name; ///< module path of its block, or of an op outside of blocks
  /// The different module paths of its forward ops, in order.
  std::vector<std::string> modules;
  int64_t parameters = 0; ///< elements (tied parameters count in each layer that reads them)
  int64_t forwardFlops = 0;
  int64_t backwardInputFlops = 0;
  int64_t backwardWeightFlops = 0;
  double seconds = 0;          ///< time of forward and backward on one rank
  int64_t activationBytes = 0; ///< bytes of forward results that any backward uses
  int64_t boundaryBytes = 0;   ///< bytes sent over a cut after this layer, in both directions

  int64_t getBackwardFlops() const { return backwardInputFlops + backwardWeightFlops; }
};

/// Returns the layers of `function`, with their times on `device`. The ops of `function` must have
/// segments and shardings (level 2).
std::vector<Layer> findLayers(mlir::func::FuncOp function, const costs::Device &device);

/// Returns the first layer of each stage except stage 0. `method` is a value of `--split-method`.
/// Fails if the placement has more stages than layers, if the names of the method do not match the
/// stages and layers, or if the search for cuts gives up.
llvm::Expected<llvm::SmallVector<int64_t>> findCuts(llvm::ArrayRef<Layer> layers,
                                                    llvm::StringRef method,
                                                    const schedules::Placement &placement);

/// Returns the cost of each stage: the sums over its layers, and the bytes sent over the cut after
/// the stage.
std::vector<ir::StageCost> addUpStages(llvm::ArrayRef<Layer> layers, const ir::Stages &stages);

/// Returns the function whose segments are divided into stages: `@micro_batch`, else `@evaluate`,
/// else null.
mlir::func::FuncOp getCutFunction(mlir::ModuleOp module);

} // namespace parashard::pipeline

#endif
