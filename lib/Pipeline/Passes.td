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

def SchedulePass : Pass<"ps-schedule", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "orders the runs of a step's micro-batches";
  let description = [{
    Level 3 to level 4: `rank.program @pp0` with the forward and backward of each micro-batch and then the update,
    and `@evaluate.pp0`. Collectives of the update are started in buckets and waited for where they are used; those
    of gradients start among the runs of the last micro-batch, each bucket after the last run that adds to one of
    them. A program whose cotangents come from outside becomes sections forward, backward, update; there all start
    in the update.
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", "1", "micro-batches of a step">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "25 << 20", "most bytes of one bucket of tensors">,
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
  }];
}

#endif
