// The passes that look at ops without changing them.
#ifndef PARASHARD_LIB_EVALUATE_PASSES_TD
#define PARASHARD_LIB_EVALUATE_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrintShardingRulesPass : Pass<"ps-print-sharding-rules"> {
  let summary = "remarks at each op that has one: its sharding rule";
  let description = [{
    `#ps.rule<([i, k], [k, j]) -> ([i, j]), i = 8, k = 384 reduction(sum), j = 1152>`, then the groups of
    operands in which the op is linear. For tests, and to see why a sharding does not pass an op.
  }];
}

#endif
