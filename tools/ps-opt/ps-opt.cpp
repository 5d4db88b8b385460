// The tool that reads a module, runs passes over it, and prints it.
#include "dialects/ps/Ps.h"
#include "dialects/rank/Rank.h"
#include "lib/Evaluate/Passes.h"
#include "lib/Partition/Passes.h"
#include "lib/Pipeline/Passes.h"
#include "lib/Sharding/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "parashard/Codegen.h"
#include "parashard/Import.h"
#include "parashard/Memory.h"
#include "parashard/Training.h"

/// Each pass library adds its `registerXPasses()` here, and its name to CMakeLists.txt.
static void registerPasses() {
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  parashard::registerEvaluatePasses();
  parashard::registerImportPasses();
  parashard::registerTrainingPasses();
  parashard::registerShardingPasses();
  parashard::ps::registerPartitionPasses();
  parashard::ps::registerPipelinePasses();
  parashard::codegen::registerCodegenPasses();
  parashard::registerMemoryPasses();
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, parashard::ps::PSDialect,
                  parashard::rank::RankDialect>();
  registerPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Parashard's passes over a module (.mlir)\n", registry));
}
