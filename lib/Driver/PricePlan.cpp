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
                            {"limits", largestPart}};
}

std::optional<PlanPrice> PlanPrice::fromText(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value)
    return llvm::consumeError(value.takeError()), std::nullopt;
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Object *parts = object ? object->getObject("breakdown") : nullptr;
  if (!parts)
    return std::nullopt;
  PlanPrice price;
  for (size_t i = 0; i < kParts; ++i)
    price.breakdown.push_back(parts->getNumber(getName(Part(i))).value_or(0));
  std::optional<double> seconds = object->getNumber("step_s"), mfu = object->getNumber("mfu");
  std::optional<int64_t> bytes = object->getInteger("memory_bytes");
  std::optional<llvm::StringRef> largestPart = object->getString("limits");
  if (!seconds || !mfu || !bytes || !largestPart)
    return std::nullopt;
  price.seconds = *seconds;
  price.mfu = *mfu;
  price.memoryBytes = *bytes;
  price.largestPart = largestPart->str();
  return price;
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
  price.largestPart = getName((*step)->parts.getLargest()).str();
  for (size_t i = 0; i < kParts; ++i)
    price.breakdown.push_back((*step)->parts[Part(i)]);
  for (const memory::MemoryPeak &peak : memory::findPeaks(module))
    price.memoryBytes = std::max(price.memoryBytes, peak.arenaBytes);
  return price;
}

} // namespace parashard::driver
