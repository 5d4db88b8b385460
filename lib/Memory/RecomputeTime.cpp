// Adds up the costs of ops that run again.
#include "RecomputeTime.h"
#include "lib/IR/Stages.h"
#include "lib/Pipeline/LocalCost.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;

int64_t memory::getTime(Operation *op, ps::MeshOp mesh, const costs::Device &device) {
  constexpr double kPerSecond = 1e12;
  return int64_t(pipeline::getLocalSeconds(op, mesh, device) * kPerSecond);
}

std::string memory::describeRecompute(func::FuncOp function, const costs::Device &device) {
  ps::MeshOp mesh = ps::getMesh(function);
  int64_t first = 0, again = 0;
  llvm::SmallSet<int64_t, 16> all, some;
  for (Operation &op : function.getBody().front()) {
    bool isAgain = op.hasAttr(kRecomputedMark);
    (isAgain ? again : first) += getTime(&op, mesh, device);
    if (std::optional<int64_t> segment = ir::getSegment(&op)) {
      all.insert(*segment);
      if (isAgain)
        some.insert(*segment);
    }
  }
  return llvm::formatv("{0} of {1} layers recompute activations; estimated cost: {2:f1} % "
                       "more time per micro-batch",
                       some.size(), all.size(), 100.0 * again / std::max<int64_t>(first, 1));
}
