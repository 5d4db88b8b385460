// Declares the passes that turn level 2 (planned) into level 3 (partitioned).
#ifndef PARASHARD_LIB_PARTITION_PASSES_TD
#define PARASHARD_LIB_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PartitionPass : Pass<"ps-partition", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "rewrites every function to local types with explicit collectives";
  let description = [{
    Turns level 2 into level 3. `docs/levels.md`, "How an op runs", defines how each op runs: its
    operands are resharded to the shardings that the op needs, its results to their `ps.shardings`.
    Each resharding of a value is built once. Without a mesh, the pass only sets the module's level.
  }];
}

def SimplifyCollectivesPass : Pass<"ps-simplify-collectives", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "cancels and merges collectives, and reduces their bytes";
  let description = [{
    Applies these rewrites within one run:
    - equal collectives are merged;
    - `all_gather` of a `shard_slice` cancels;
    - `all_reduce` whose only use is a `shard_slice` becomes `reduce_scatter`;
    - the sum of two `all_reduce`s becomes one `all_reduce` of the sum;
    - gradients are rounded before `all_reduce` or `reduce_scatter` where `--gradient-reduction`
      asks for a narrower type;
    - fp8 tensors with one scale are gathered in fp8 and dequantized afterwards.
  }];
}

def ExplainCollectivesPass : Pass<"ps-explain-collectives", "::mlir::ModuleOp"> {
  let summary = "prints every collective of a step with its bytes, cause and source line";
  let description = [{
    Counts the collectives in the functions, including those inside a partitioned op (a softmax over
    a split dim). `ps-partition` has recorded the cause on each collective. With `record`, the pass
    prints nothing. Instead, the pass appends the table to the text of the plan (`ps.explanation`),
    stores the source location of each collective as data (`ps.collectives`), and removes the causes
    from the ops.
  }];
  let options = [Option<"record", "record", "bool", "false",
                        "append the table to `ps.explanation` instead of printing it">];
}

def SplitStagesPass : Pass<"ps-split-stages", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "copies cheap values into each pipeline stage and splits @update by coordinate";
  let description = [{
    Some values are computed from constants and inputs and cost less to compute than to send: masks,
    positions, rotary tables. Each stage that uses such a value recomputes it, in a new segment
    before the stage.

    `@update` becomes one function per pipeline coordinate: `@update.pp0`, `@update.pp1`, ... Each
    one updates the parameters that the coordinate holds. Sums over parameters (the global norm) are
    reduced over the coordinates, and each parameter counts once. A variable that several stages add
    to (a tied parameter's gradient, the loss) gets one accumulator per stage; their sum goes to the
    coordinates that read it.

    A module with one stage stays unchanged.
  }];
}

def OutlineSegmentsPass : Pass<"ps-outline-segments", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "outlines segments into class functions, and stages into functions of runs";
  let description = [{
    Every (segment, phase) of `@micro_batch` and `@evaluate`, and every parameter's part of
    `@update`, becomes a run of a class function. Runs that are equal up to variables, keys and
    locations share one class.

    The functions become `@stage0.micro_batch`, `@stage0.evaluate`, `@stage0.update`, and likewise
    for the other stages of a pipeline. A value that crosses stages is a result of one stage
    function and an argument of others. Both sides carry the same number (`ps.value`).
  }];
}

def VerifyPartitionedPass : Pass<"ps-verify-partitioned", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "verifies the constraints of level 3";
  let description = [{
    - (partitioned_c1) a class function carries its phase and the number of results that it saves.
    - (partitioned_c2) a class function names no variable.
    - (partitioned_c3) a stage function holds only runs, reads, movement ops, and collectives.
    - (partitioned_c4) collectives name axes of the mesh.
    - (partitioned_c5) no tensor is split or partial over the pipeline axis.
    - (partitioned_c6) over the pipeline axis, only an `all_reduce` over that axis alone is valid,
      in a stage function of `update` or `count`. Ranks of another coordinate never join any other
      collective.
    - (partitioned_c7) each entry has one function per stage; `update` and `count` have one per
      pipeline coordinate.
    - (partitioned_c8) a value that a stage function receives is a result of exactly one other stage
      function, with the same type.
    - (partitioned_c9) every member of a reduction over pipeline coordinates (`ps.coordinates`, else
      all) starts the reduction. The n-th reduction with the same members has the same kind, type
      and reduced value (`ps.reduced`) on each member.
    - (partitioned_c10) all stage functions of an entry reach their ends when each op waits for its
      operands and each reduction for its members: there is no deadlock.
    - (partitioned_c11) the attributes of stages are consistent with each other and with the mesh.
    - (partitioned_c12) runs call class functions.
    - (partitioned_c13) an op of a stage function uses no value of a later phase (forward,
      backward_input, backward_weight), and only `micro_batch` has a backward.
  }];
}

#endif
