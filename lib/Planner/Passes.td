// Declares the passes of the planner.
#ifndef PARASHARD_LIB_PLANNER_PASSES_TD
#define PARASHARD_LIB_PLANNER_PASSES_TD

include "mlir/Pass/PassBase.td"

def ShrinkRepeatsPass : Pass<"ps-shrink-repeats", "::mlir::ModuleOp"> {
  let summary = "keeps two of many equal blocks of a model";
  let description = [{
    Finds the longest sequence of consecutive segments of `@forward` with equal ops, such as the
    layers of a transformer, and removes all of them except the first two. The result is a valid
    smaller model, whose cost the planner extrapolates. Two segments are equal if they have the same
    ops on values of the same types, and use the previous segment's results in the same way.

    Sets `ps.repeats` to a parameter of the second segment, and to the number of removed segments.
    Changes nothing if no three segments are equal, if a later op uses a result of a removed segment
    other than the last one, or if the segments have no parameters.
  }];
}

#endif
