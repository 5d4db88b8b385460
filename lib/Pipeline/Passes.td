// The passes that cut a program into segments and order their runs.
#ifndef PARASHARD_LIB_PIPELINE_PASSES_TD
#define PARASHARD_LIB_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def FindSegmentsPass : Pass<"ps-find-segments", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "gives every op of @micro_batch and @evaluate its segment";
  let description = [{
    A segment is one instance of a repeated block, or what stands between blocks. Blocks are read from the
    module paths in locations (`transformer.h.3.attn` is of `transformer.h.3`), or, where there are none, from the
    unit that repeats in the op list. A backward op has the segment of the op it was built for. Forward
    values flow to equal or later segments, backward ones to equal or earlier ones.
  }];
}

def PartitionPipelinePass : Pass<"ps-partition-pipeline", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "cuts the segments into the stages of the mesh's pipeline axis";
  let description = [{
    Stages are contiguous lists of segments; there are as many as the pipeline axis is long, times `chunks`. `method` is
    `uniform` (segments), `parameters` (elements) or `flops` (forward and backward): the largest weight of a
    coordinate, over all of its stages, is the smallest possible; among equals, the fewest bytes cross. Or it is a
    list of module paths: a stage begins at each. The cuts become marks of the module
    (`ps.stage_cuts`, `ps.num_chunks`, `ps.placement`). Nothing happens where there is one stage.
  }];
  let options = [
    Option<"method", "method", "std::string", "\"uniform\"", "uniform, parameters, flops, or NAME,NAME,...">,
    Option<"chunks", "chunks", "int64_t", "1", "stages of a pipeline coordinate">,
    Option<"placement", "placement", "std::string", "\"loop\"",
           "stage s on coordinate s mod size (loop), or back and forth (v)">,
  ];
}

def ExplainPipelinePass : Pass<"ps-explain-pipeline", "::mlir::ModuleOp"> {
  let summary = "prints the layers of a pipeline: stage, parameters, flops, bytes";
  let description = [{
    With `record`, adds the table to the module's plan in words (`ps.explanation`) instead. Nothing is said of a
    module with one stage.
  }];
  let options = [Option<"record", "record", "bool", "false", "add to the words in the module">];
}

def SchedulePass : Pass<"ps-schedule", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "orders the runs of a step's micro-batches";
  let description = [{
    Level 3 to level 4: for each pipeline coordinate `rank.program @pp0`, ... with its stages' forward and backward of each
    micro-batch in the order of the schedule's table and then the update, and `@evaluate.pp0`, .... What crosses between
    coordinates is asked for one task ahead of its use and sent behind the task that makes it; the sender waits for it when
    the other side has asked for it, by the table's own clock. Collectives of the update are started in buckets and waited for where they are used; those
    of gradients start among the runs of the last micro-batch, each bucket after the last run that adds to one of
    them. A program whose cotangents come from outside becomes sections forward, backward, update; there all start
    in the update.
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", "1", "micro-batches of a step">,
    Option<"schedule", "schedule", "std::string", "\"\"",
           "gpipe, 1f1b, interleaved, zb-h1, zb-v, or FILE.json with a table; empty: by the chunks">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "25 << 20", "most bytes of one bucket of tensors">,
  ];
}

def OverlapCollectivesPass : Pass<"ps-overlap-collectives", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "gathers parameters one layer ahead";
  let description = [{
    The gathers of variables that a run waits for are started in front of the run that waited for gathers before it,
    so that they travel while that one computes: at most the parameters of two runs are whole at once. Nothing moves
    over an op that may write what is gathered, nor into another section.
  }];
}

def VerifyScheduledPass : Pass<"ps-verify-scheduled", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "checks what must hold at level 4";
  let description = [{
    - (scheduled_c1) what is started is waited for.
    - (scheduled_c2) a started collective's results are used after its wait.
    - (scheduled_c3) entries of a queue are waited for in the order in which they were started.
    - (scheduled_c4) no stage function is left.
    - (scheduled_c5) an input of a micro-batch is read as one part, by one op.
    - (scheduled_c6) between a start and its wait no op may write a variable that the start reads.
    - (scheduled_c7) what a queue between two pipeline coordinates sends is what is received, in order and type.
    - (scheduled_c8) all programs reach their ends when an entry completes only at the head of its queue on every
      member, and a wait blocks: no deadlock. Else the error names who waits for whom.
    - (scheduled_c9) every member of a reduction over pipeline coordinates starts it, of the same thing, on equal types.
    - (scheduled_c10) what segments add to a variable is added in the order of the micro-batches.
  }];
}

#endif
