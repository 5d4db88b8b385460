// The passes from level 2 to level 3.
#ifndef PARASHARD_LIB_PARTITION_PASSES_TD
#define PARASHARD_LIB_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PartitionPass : Pass<"ps-partition", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "rewrites every function to local types with explicit collectives";
  let description = [{
    Level 2 to level 3. Each op runs as `docs/levels.md`, "How an op runs", says: its operands are brought to
    what it needs, its results to what they are marked with. Each resharding of a value is built once.
    A module without a mesh only changes its level.
  }];
}

def SimplifyCollectivesPass : Pass<"ps-simplify-collectives", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "merges, cancels and cheapens collectives";
  let description = [{
    Equal collectives of one run become one; `all_gather` of a `shard_slice` cancels; `all_reduce` whose only
    use is a `shard_slice` becomes `reduce_scatter`; the sum of two `all_reduce`s becomes one of the sum.
  }];
}

def ExplainCollectivesPass : Pass<"ps-explain-collectives", "::mlir::ModuleOp"> {
  let summary = "prints every collective of a step: bytes, cause, source line";
  let description = [{
    Counts the collectives that stand in the functions, those that an op makes inside itself (a softmax over a
    split dim) too. What each is for is what `ps-partition` left on it. With `record`, adds the table to the
    module's plan in words (`ps.explanation`) instead, keeps each collective's place as data (`ps.collectives`),
    and takes the causes off the collectives.
  }];
  let options = [Option<"record", "record", "bool", "false", "add to the words in the module">];
}

def SplitStagesPass : Pass<"ps-split-stages", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "gives each stage of a pipeline what it computes for itself, and its part of @update";
  let description = [{
    Values that follow from constants and inputs at less cost than sending them (masks, positions, rotary tables) are
    computed again in each stage that uses them, in a segment of their own in front of it. `@update` becomes one
    function a pipeline coordinate, `@update.pp0`, ...: with the parameters that it holds; sums over parameters (the
    global norm) are combined, each parameter counted once, and what stages add to one variable (a tied parameter's
    gradient, the loss) is added up over the coordinates that read it. Each stage adds to an accumulator of its own.
    Nothing happens where there is one stage.
  }];
}

def OutlineSegmentsPass : Pass<"ps-outline-segments", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "makes class functions of segments and lists of runs of stages";
  let description = [{
    Every (segment, phase) of `@micro_batch` and `@evaluate`, and every parameter's part of `@update`, becomes a run
    of a class function; runs that are equal up to variables, keys and locations share one. The functions become
    `@stage0.micro_batch`, `@stage0.evaluate`, `@stage0.update`, and likewise for the other stages of a pipeline: values
    that cross are results of one stage function and arguments of others, marked with equal numbers (`ps.value`).
  }];
}

def VerifyPartitionedPass : Pass<"ps-verify-partitioned", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "checks what must hold at level 3";
  let description = [{
    - (partitioned_c1) a class function carries its phase, and how many of its results it saves.
    - (partitioned_c2) a class function names no variable.
    - (partitioned_c3) a stage function holds runs, reads, what moves them, and collectives alone.
    - (partitioned_c4) collectives name axes of the mesh.
    - (partitioned_c5) no tensor is split, and none is partial, over the pipeline axis.
    - (partitioned_c6) over the pipeline axis there is an all_reduce alone, over no other axis, in a stage function of
      `update` or `count`: the ranks of another coordinate never join any other collective.
    - (partitioned_c7) each entry has one function per stage; `update` and `count` have one per pipeline coordinate.
    - (partitioned_c8) a value that a stage function takes of another is one result there, of the same type.
    - (partitioned_c9) every member of a reduction over pipeline coordinates (`ps.coordinates`, else all) starts it: the
      n-th one with the same members is of the same kind, type and thing (`ps.reduced`) on each of them.
    - (partitioned_c10) all stage functions of an entry reach their ends when each op waits for its operands, and a
      reduction for its members: no deadlock.
    - (partitioned_c11) the marks of stages fit one another and the mesh.
    - (partitioned_c12) runs call class functions.
    - (partitioned_c13) an op of a stage function uses no value of a later phase (forward, backward_input,
      backward_weight), and entries but `micro_batch` have no backward.
  }];
}

#endif
