// Declares ps-canonicalize and ps-print-sharding-rules.
#ifndef PARASHARD_LIB_EVALUATE_PASSES_TD
#define PARASHARD_LIB_EVALUATE_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrintShardingRulesPass : Pass<"ps-print-sharding-rules"> {
  let summary = "prints the sharding rule of each op as a remark";
  let description = [{
    Prints the rule of an op, followed by the groups of operands in which the op is jointly linear,
    such as `linear {0} {1}` for a multiplication. The rules show why a sharding does not propagate
    through an op. Example of a rule:
    `#ps.rule<([i, k], [k, j]) -> ([i, j]), i = 8, k = 384 reduction(sum), j = 1152>`.
  }];
}

def CanonicalizeMarkedPass : Pass<"ps-canonicalize"> {
  let summary = "canonicalizes, and copies discardable attributes to new ops";
  let description = [{
    Applies the folders and patterns of `canonicalize` with a `MarkListener`: new ops get the phase,
    segment, origin and shardings of the ops that they replace. For level 1 and later.
  }];
}

#endif
