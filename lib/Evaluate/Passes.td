// The passes that fold by evaluation, and that show what ops say about themselves.
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

def CanonicalizeMarkedPass : Pass<"ps-canonicalize"> {
  let summary = "canonicalizes, and keeps the marks of ops";
  let description = [{
    The folders and patterns of `canonicalize`, under a `MarkListener`: what a rewrite makes takes the phase,
    segment and shardings of what it replaces. For levels 1 and later.
  }];
}

#endif
