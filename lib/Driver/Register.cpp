// Registers dialects and passes explicitly, without static constructors.
#include "dialects/rank/Rank.h"
#include "lib/Evaluate/Passes.h"
#include "lib/Partition/Passes.h"
#include "lib/Pipeline/Passes.h"
#include "lib/Sharding/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"
#include "parashard/Driver.h"
#include "parashard/Fusion.h"
#include "parashard/Import.h"
#include "parashard/Memory.h"
#include "parashard/Planner.h"
#include "parashard/Precision.h"
#include "parashard/Training.h"

using namespace parashard::evaluate;
using namespace parashard::import;
using namespace parashard::memory;
using namespace parashard::precision;
using namespace parashard::sharding;
using namespace parashard::training;

namespace parashard::driver {

void registerEverything(mlir::DialectRegistry &registry) {
  registry.insert<ps::PSDialect, rank::RankDialect, mlir::func::FuncDialect,
                  mlir::arith::ArithDialect>();
}

void registerAllPasses() {
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  registerEvaluatePasses();
  registerImportPasses();
  registerTrainingPasses();
  registerPrecisionPasses();
  registerShardingPasses();
  partition::registerPartitionPasses();
  pipeline::registerPipelinePasses();
  registerMemoryPasses();
  fusion::registerFusionPasses();
  planner::registerPlannerPasses();
}

} // namespace parashard::driver
