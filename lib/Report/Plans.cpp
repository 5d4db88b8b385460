// Lists the plans of a search for the report.
#include "Gather.h"

using namespace parashard::driver;
namespace json = llvm::json;

namespace parashard::report {

static json::Object describe(const Plan &plan) {
  const CompileOptions &o = plan.options;
  json::Object row{{"mesh", o.mesh},
                   {"policy", plan.policy},
                   {"zero", o.zero},
                   {"batch", o.batch.value_or(0)},
                   {"micro_batches", o.microBatches},
                   {"schedule", o.schedule},
                   {"chunks", o.numChunks},
                   {"recompute", o.recompute},
                   {"estimated_s", plan.estimatedSeconds},
                   {"estimated_bytes", int64_t(plan.estimatedMemory)}};
  if (plan.price) {
    row["step_s"] = plan.price->seconds;
    row["memory_bytes"] = plan.price->memoryBytes;
  }
  return row;
}

json::Object listPlans(const PlanAnswer &answer) {
  json::Array plans, neighbors, breakdown;
  for (const Plan &plan : answer.plans)
    plans.push_back(describe(plan));
  for (const Alternative &each : answer.neighbors)
    neighbors.push_back(json::Object{{"change", each.change},
                                     {"step_s", each.seconds},
                                     {"memory_bytes", int64_t(each.memory)},
                                     {"why", each.reason}});
  const PlanPrice &best = *answer.plans.front().price;
  for (size_t i = 0; i < best.breakdown.size(); ++i)
    breakdown.push_back(json::Object{{"part", getPartName(i)}, {"seconds", best.breakdown[i]}});
  return json::Object{{"plans", std::move(plans)},         {"neighbors", std::move(neighbors)},
                      {"breakdown", std::move(breakdown)}, {"mfu", best.mfu},
                      {"priced", answer.priced},           {"memory_limit", int64_t(answer.memory)},
                      {"complete", answer.isComplete}};
}

} // namespace parashard::report
