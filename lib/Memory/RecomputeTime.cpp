// Adds up the costs of ops that run again.
#include "RecomputeTime.h"
#include "lib/IR/Stages.h"
#include "lib/Pipeline/LocalCost.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;

/// Current processors compute 5 to 20 f32 flops per byte from memory (the ridge of the roofline;
/// Williams et al., 2009). Fused ops read less from memory, so the constant is at the low end.
static constexpr int64_t kFlopsPerByte = 8;

int64_t memory::getTime(Operation *op, ps::MeshOp mesh) {
  ps::OpCost cost = pipeline::getLocalCost(op, mesh);
  return cost.contractionFlops + cost.otherFlops + kFlopsPerByte * cost.bytesWritten;
}

std::string memory::describeRecompute(func::FuncOp function) {
  ps::MeshOp mesh = ps::getMesh(function);
  int64_t first = 0, again = 0;
  llvm::SmallSet<int64_t, 16> all, some;
  for (Operation &op : function.getBody().front()) {
    bool isAgain = op.hasAttr(kRecomputedMark);
    (isAgain ? again : first) += getTime(&op, mesh);
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
