// Declares the passes of the planner.
#ifndef PARASHARD_LIB_PLANNER_PASSES_TD
#define PARASHARD_LIB_PLANNER_PASSES_TD

include "mlir/Pass/PassBase.td"

def ShrinkRepeatsPass : Pass<"ps-shrink-repeats", "::mlir::ModuleOp"> {
  let summary = "keeps two of many equal blocks of a model";
  let description = [{
    Finds the longest sequence of consecutive segments of `@forward` with equal ops, such as the
    layers of a transformer, and removes all of them except the first two. The result is a valid
    smaller model. The planner extrapolates its cost to the whole model. Two segments are equal if
    they have the same ops on values of the same types, and use the previous segment's results in
    the same way.

    Sets `ps.repeats` to the name of a parameter of the second segment and the number of removed
    segments. Changes nothing in these cases:
    - the longest sequence has fewer than three segments;
    - an op after the sequence uses a result of a segment other than the first and the last one;
    - the second segment has no parameter of its own.
  }];
}

#endif
