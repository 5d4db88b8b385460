// The plan in words.
#include "lib/Sharding/Explain.h"
#include "parashard/Pipelines.h"

namespace parashard {

std::string explainPlan(mlir::ModuleOp module) { return ps::getExplanation(module); }

} // namespace parashard
