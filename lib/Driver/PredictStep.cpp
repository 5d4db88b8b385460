// Predicts the time of a step for `--explain`.
#include "lib/IR/OpTimes.h"
#include "lib/Planner/StepTime.h"
#include "parashard/Driver.h"

using namespace mlir;

namespace parashard::driver {

std::string explainStep(ModuleOp module) {
  FailureOr<costs::Cluster> cluster = ir::findCluster(module);
  if (failed(cluster))
    return "";
  llvm::Expected<std::optional<planner::StepTime>> step = planner::predictStep(module, *cluster);
  if (!step) {
    module.emitWarning() << "the time of a step is not predicted: "
                         << llvm::toString(step.takeError());
    return "";
  }
  ps::MeshOp mesh = ps::getMesh(module);
  return *step ? planner::describe(**step, *cluster, mesh ? mesh.getDeviceCount() : 1) : "";
}

} // namespace parashard::driver
