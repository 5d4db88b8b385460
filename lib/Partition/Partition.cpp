// Implements ps-partition: rewrites every function to local types.
#include "lib/Partition/FunctionPartitioner.h"
#include "lib/Partition/Passes.h"
#include "parashard/Levels.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::partition {
#define GEN_PASS_DEF_PARTITIONPASS
#include "lib/Partition/Passes.h.inc"

namespace {
struct PartitionPass : impl::PartitionPassBase<PartitionPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkLevel(module, Level::Planned, getArgument())))
      return signalPassFailure();
    if (MeshOp mesh = getMesh(module)) {
      SymbolTable symbols(module);
      for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
        if (failed(partitionFunction(function, mesh, symbols)))
          return signalPassFailure();
    }
    module->setAttr(kLevelMark, LevelAttr::get(&getContext(), Level::Partitioned));
  }
};
} // namespace
} // namespace parashard::partition
