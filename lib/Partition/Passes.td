// Declares the passes that turn level 2 (planned) into level 3 (partitioned).
#ifndef PARASHARD_LIB_PARTITION_PASSES_TD
#define PARASHARD_LIB_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PartitionPass : Pass<"ps-partition", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "rewrites every function to local types with explicit collectives";
  let description = [{
    Lowers level 2 to level 3. Reshards the operands of each op to the shardings with which the op
    runs, and its results to `ps.shardings` (docs/levels/op-sharding.md). Users of a value share its
    reshards. The backward reuses the result of an all-reduce of the forward, but repeats
    all-gathers, so that gathered values need not be saved. In a module without a mesh, only the
    level changes.
  }];
}

def SimplifyCollectivesPass : Pass<"ps-simplify-collectives", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "merges and removes collectives, and reduces their bytes";
  let description = [{
    Applies these rewrites:
    - equal collectives of one segment and phase are merged;
    - an `all_gather` of a matching `shard_slice` is removed, and so is the reverse;
    - a `shard_slice` of a constant with equal elements becomes a smaller constant;
    - `all_reduce` whose only use is a `shard_slice` becomes `reduce_scatter`;
    - the sum of two `all_reduce`s of one segment and phase becomes one `all_reduce` of the sum;
    - if `--gradient-reduction` requests a narrower type, gradients are converted to this type
      before their `all_reduce` or `reduce_scatter`;
    - fp8 tensors with one scale are gathered in fp8 and dequantized afterwards.
  }];
}

def ExplainCollectivesPass : Pass<"ps-explain-collectives", "::mlir::ModuleOp"> {
  let summary = "prints every collective of a step with its bytes, cause and source line";
  let description = [{
    Counts the collectives in the functions, including those that compute a partitioned op. Example:
    a softmax over a split dim needs two all-reduces. The causes are attributes that `ps-partition`
    set on the collectives.

    With `record`, the pass prints nothing. It appends the table to the text of the plan
    (`ps.explanation`), stores the collectives on the module (`ps.collectives`), and removes the
    causes from the ops.
  }];
  let options = [Option<"record", "record", "bool", "false",
                        "store the table in the module instead of printing it">];
}

def SplitStagesPass : Pass<"ps-split-stages", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "copies cheap values into each pipeline stage and splits @update by coordinate";
  let description = [{
    Some values depend only on constants and inputs, and cost less to compute than to send: masks,
    positions, rotary tables. Each later stage that uses such a value computes its own copy, in a
    new first segment of the stage.

    `@update` becomes one function per pipeline coordinate: `@update.pp0`, `@update.pp1`, ... Each
    function updates the parameters that the coordinate stores. Sums over parameters (the global
    norm) are reduced over the coordinates, and count each parameter once. Some variables are
    accumulated by several stages (a tied parameter's gradient, the loss). Such a variable gets one
    accumulator per stage for ops of phase `backward_weight`, and one for all other ops. An
    all-reduce gives the sum of these accumulators to the coordinates that read the variable.

    A module with one stage stays unchanged.
  }];
}

def OutlineSegmentsPass : Pass<"ps-outline-segments", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "outlines segments into class functions, and stages into functions that call them";
  let description = [{
    The ops of each (segment, phase) of `@micro_batch` and `@evaluate`, and the ops of each
    parameter in `@update`, become a class function and a `rank.run` that calls the function.
    Segments whose ops are equal except for variables, keys and locations share one class function
    per phase.

    The functions become `@stage0.micro_batch`, `@stage0.evaluate`, `@stage0.update`, and likewise
    for the other stages of a pipeline. A value that is sent between stages is a result of one stage
    function and an argument of others. The result and the arguments have the same `ps.value`.
  }];
}

def VerifyPartitionedPass : Pass<"ps-verify-partitioned", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "verifies the invariants of level `partitioned`";
  let description = [{
    - (partitioned_c1) a class function has attributes for its phase and the number of results that
      it saves.
    - (partitioned_c2) a class function does not name variables; its variables are arguments.
    - (partitioned_c3) a stage function contains only runs, reads, conversions, movement ops, shard
      indices, shard slices, and collectives.
    - (partitioned_c4) collectives name axes of the mesh.
    - (partitioned_c5) no tensor is split or partial over the pipeline axis.
    - (partitioned_c6) over the pipeline axis, only an `all_reduce` over that axis alone is valid,
      in a stage function of `update` or `count`. Any other collective would wait forever, because
      ranks of other coordinates run other functions.
    - (partitioned_c7) each entry has one function per stage; `update` and `count` have one per
      pipeline coordinate.
    - (partitioned_c8) a value that a stage function receives is a result of exactly one other stage
      function, with the same type.
    - (partitioned_c9) every member of a reduction over pipeline coordinates starts the reduction.
      The members are `ps.coordinates`, or all coordinates. The n-th reduction with the same members
      has the same kind, type and reduced value (`ps.reduced`) on each member.
    - (partitioned_c10) the stage functions of an entry cannot deadlock. All of them reach their
      ends when each op waits for its operands and each reduction waits for its members.
    - (partitioned_c11) the attributes of stages are consistent with each other and with the mesh.
    - (partitioned_c12) runs call class functions.
    - (partitioned_c13) an op of a stage function does not use a value of a later phase (forward,
      backward_input, backward_weight), and only `micro_batch` has a backward.
  }];
}

#endif
