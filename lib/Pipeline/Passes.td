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

def OffloadPass : Pass<"ps-offload", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "puts what is not used for long into the host's memory";
  let description = [{
    `what=optimizer`: optimizer state, averages, and weights of which all else uses a copy in another type. Such
    a variable gets `ps.host`, and each run of the update has it staged: `rank.fetch` brings it ahead of the run,
    `rank.offload` takes it back. Runs are taken together to pieces of at least `piece-bytes`, or an eighth of all
    where that is less. The first piece is fetched where the update begins, each other one in front of the piece before
    it; a piece that goes back is waited for in front of the one after the next. So three are on the device at most. What
    several runs share, and single numbers, stay.

    `what=activations`: values that a run of forward makes, or that are received, for a run of backward. What no op uses
    from one op to the run of backward goes by one `rank.stash` behind the first, and comes back by one `rank.unstash` ahead
    of the second. By the cost interface and the rates below, chosen is only what goes and comes while runs compute, one
    after the other in each direction; and of that only what makes fewer the bytes of values that are kept at once.
    `activations=all` minds the bytes alone: a copy has one run beside it, in front or behind, whether or not it takes longer.

    Where nothing is found, a warning says so and nothing changes.
  }];
  let options = [
    Option<"what", "what", "std::string", "\"optimizer\"", "optimizer, activations, activations=all, or two with a comma">,
    Option<"flops", "flops", "int64_t", "100000000000", "of contractions a second, in f32">,
    Option<"narrowFlops", "narrow-flops", "int64_t", "100000000000", "the same of 16-bit types">,
    Option<"memory", "memory", "int64_t", "10000000000", "bytes a second of the device's memory">,
    Option<"host", "host", "int64_t", "5000000000", "bytes a second between it and the host's, in each direction">,
    Option<"pieceBytes", "piece-bytes", "int64_t", "32 << 20", "bytes that are fetched at once, at most an eighth of all">,
  ];
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
    - (scheduled_c11) a variable that lies in the host's memory is fetched, and runs have it staged; nothing else uses it.
    - (scheduled_c12) runs have what is fetched after its wait, and before it is brought back.
    - (scheduled_c13) what is fetched is brought back once, and fetched again only after the wait of that.
    - (scheduled_c14) what is stashed is unstashed once, after the wait for it, and used after the wait for that.
    - (scheduled_c15) no tensor is split, and none is partial, over the pipeline axis.
    - (scheduled_c16) no collective of a program or a class function goes over the pipeline axis but by `over_pp`: the ranks
      of another coordinate never join it.
    - (scheduled_c17) an entry has one program for each pipeline coordinate.
    - (scheduled_c18) the marks of stages fit one another and the mesh.
    - (scheduled_c19) runs call class functions.
  }];
}

#endif
