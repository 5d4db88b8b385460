// Prices the plan of a compiled program.
#include "lib/IR/OpTimes.h"
#include "lib/Memory/Peak.h"
#include "lib/Planner/StepTime.h"
#include "parashard/Driver.h"

using namespace mlir;
using namespace parashard::planner;

namespace parashard::driver {

llvm::json::Object PlanPrice::toJson() const {
  llvm::json::Object parts;
  for (size_t i = 0; i < kParts; ++i)
    parts[getName(Part(i))] = breakdown[i];
  return llvm::json::Object{{"step_s", seconds},
                            {"breakdown", std::move(parts)},
                            {"memory_bytes", memoryBytes},
                            {"mfu", mfu},
                            {"limits", limits}};
}

llvm::StringRef getPartName(size_t part) { return getName(Part(part)); }

llvm::Expected<PlanPrice> pricePlan(ModuleOp module, const llvm::StringMap<double> *measured) {
  FailureOr<costs::Cluster> cluster = ir::findCluster(module);
  if (failed(cluster))
    return llvm::createStringError("the cluster cannot be read");
  llvm::Expected<std::optional<StepTime>> step = predictStep(module, *cluster, measured);
  if (!step)
    return step.takeError();
  if (!*step)
    return llvm::createStringError("the program has no training step to price");
  PlanPrice price;
  price.seconds = (*step)->seconds;
  price.mfu = (*step)->mfu;
  price.limits = getName((*step)->parts.getLargest()).str();
  for (size_t i = 0; i < kParts; ++i)
    price.breakdown.push_back((*step)->parts[Part(i)]);
  for (const memory::MemoryPeak &peak : memory::findPeaks(module))
    price.memoryBytes = std::max(price.memoryBytes, peak.arenaBytes);
  return price;
}

} // namespace parashard::driver
