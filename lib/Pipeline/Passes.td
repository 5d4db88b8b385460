// Declares the passes that find a program's segments, assign them to pipeline stages, and schedule
// their runs.
#ifndef PARASHARD_LIB_PIPELINE_PASSES_TD
#define PARASHARD_LIB_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def FindSegmentsPass : Pass<"ps-find-segments", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "assigns a segment to every op of @micro_batch and @evaluate";
  let description = [{
    A segment is one instance of a repeated block, or the ops between two blocks. Blocks come from
    the module paths in locations (`transformer.h.3.attn` belongs to `transformer.h.3`). Without
    such paths, the op list is searched for a sequence of ops that repeats. A backward op has the
    segment of its forward op. Forward values flow to equal or later segments, backward values to
    equal or earlier ones.
  }];
}

def PartitionPipelinePass : Pass<"ps-partition-pipeline", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "assigns segments to the stages of the mesh's pipeline axis";
  let description = [{
    A stage is a contiguous list of segments. The number of stages is the size of the pipeline axis
    times `chunks`. The resulting cuts become attributes of the module (`ps.stage_cuts`,
    `ps.num_chunks`, `ps.placement`). A module with one stage stays unchanged.

    `method` selects the cuts:
    - `uniform` (segments), `parameters` (elements) or `flops` (forward and backward) minimize the
      largest weight of a coordinate over all of its stages. Among equal solutions, the one that
      sends the fewest bytes wins.
    - A list of module paths begins a stage at each of these modules.
  }];
  let options = [
    Option<"method", "method", "std::string", "\"uniform\"", "uniform, parameters, flops, or NAME,NAME,...">,
    Option<"chunks", "chunks", "int64_t", "1", "stages per pipeline coordinate">,
    Option<"placement", "placement", "std::string", "\"loop\"",
           "stage s on coordinate s mod size (loop), or in alternating direction (v)">,
  ];
}

def ExplainPipelinePass : Pass<"ps-explain-pipeline", "::mlir::ModuleOp"> {
  let summary = "prints the layers of a pipeline: stage, parameters, flops, bytes";
  let description = [{
    Prints nothing for a module with one stage. With `record`, appends the table to the text of the
    plan (`ps.explanation`) instead of printing it.
  }];
  let options = [Option<"record", "record", "bool", "false",
                        "append the table to `ps.explanation` instead of printing it">];
}

def SchedulePass : Pass<"ps-schedule", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "builds one program per pipeline coordinate from a schedule of micro-batches";
  let description = [{
    Turns level 3 into level 4. Each pipeline coordinate gets a `rank.program @pp0`, ... with the
    forward and backward of its stages for each micro-batch, in the order of the schedule, and then
    the update. Evaluation becomes `@evaluate.pp0`, ....

    Values that cross coordinates are received one task before their use and sent after the task
    that produces them. The sender waits for a send as soon as the receiver has posted the receive
    by the schedule's simulated clock.

    Collectives of the update start in buckets, and their waits stand before their uses. Collectives
    of gradients start among the runs of the last micro-batch: each bucket starts after the last run
    that adds to one of its gradients.

    A program whose cotangents come from outside becomes the sections forward, backward and update.
    In such a program, all collectives start in the update.
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", "1", "micro-batches per step">,
    Option<"schedule", "schedule", "std::string", "\"\"",
           "the name of a schedule (lib/Schedules), or FILE.json with one; empty: chosen by chunks">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "25 << 20", "maximum bytes per bucket">,
  ];
}

def OverlapCollectivesPass : Pass<"ps-overlap-collectives", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "starts the gathers of parameters one layer ahead";
  let description = [{
    Moves the gathers of variables for a run before the previous run that has gathers, so that
    communication overlaps with that run. At most the full parameters of two runs exist at once. A
    gather never moves across an op that may write its variable, nor into another section.
  }];
}

def OffloadPass : Pass<"ps-offload", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "offloads optimizer state and saved activations to host memory";
  let description = [{
    `what=optimizer` offloads optimizer state, averages, and weights that ops outside the update
    read only through a copy in another type. Such a variable gets `ps.host`. `rank.fetch` copies it
    to the device before each run of the update that uses it, and `rank.offload` copies it back.
    Runs are grouped into pieces of at least `piece-bytes` bytes, or an eighth of all offloaded
    bytes if that is less. The first piece is fetched where the update begins. Before the runs of
    piece i, the fetch of piece i + 1 starts, and the copy of piece i - 2 back to the host is
    awaited. Thus at most three pieces are on the device. Variables that several runs share, and
    scalars, stay on the device.

    `what=activations` offloads values that a forward run produces or that are received, and that a
    backward run uses. If no op uses a value between some op and the backward run, one `rank.stash`
    after that op copies the value to the host, and one `rank.unstash` before the backward run
    copies it back. Only values whose copies are fully hidden are offloaded: by the cost interface
    and the rates below, copies in each direction run one after another while runs compute. Of
    these, only values that lower the peak of live bytes are offloaded.

    `what=activations=all` considers only the peak. Each copy overlaps with one run before or after
    it, even if the copy takes longer.

    If nothing can be offloaded, the pass emits a warning and changes nothing.
  }];
  let options = [
    Option<"what", "what", "std::string", "\"optimizer\"",
           "optimizer, activations, activations=all, or two of these separated by a comma">,
    Option<"flops", "flops", "int64_t", "100000000000", "f32 contraction flops per second">,
    Option<"narrowFlops", "narrow-flops", "int64_t", "100000000000",
           "contraction flops per second in 16-bit types">,
    Option<"memory", "memory", "int64_t", "10000000000", "bytes per second of device memory">,
    Option<"host", "host", "int64_t", "5000000000",
           "bytes per second between device and host, in each direction">,
    Option<"pieceBytes", "piece-bytes", "int64_t", "32 << 20",
           "minimum bytes of a fetch; capped at an eighth of the offloaded bytes">,
  ];
}

def VerifyScheduledPass : Pass<"ps-verify-scheduled", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "verifies the constraints of level 4";
  let description = [{
    - (scheduled_c1) every started operation of a queue is waited for.
    - (scheduled_c2) results of a started collective are used after its wait.
    - (scheduled_c3) operations of a queue are waited for in the order in which they were started.
    - (scheduled_c4) no stage function remains.
    - (scheduled_c5) an input of a micro-batch is read by exactly one op.
    - (scheduled_c6) between a start and its wait, no op may write a variable that the start reads.
    - (scheduled_c7) in a queue between two pipeline coordinates, sends and receives match in order,
      value and type.
    - (scheduled_c8) there is no deadlock: all programs reach their ends. A wait blocks, and an
      operation completes only when it is at the head of its queue on every member. The error names
      who waits for whom.
    - (scheduled_c9) every member of a reduction over pipeline coordinates starts the reduction,
      with the same reduced value and equal types.
    - (scheduled_c10) segments add to a variable in the order of the micro-batches.
    - (scheduled_c11) only `rank.fetch`, and runs that have the fetched copy as an operand, use a
      variable in host memory.
    - (scheduled_c12) runs use a fetched variable after the wait for its fetch and before its
      `rank.offload`.
    - (scheduled_c13) a fetched variable is offloaded once, and fetched again only after the wait
      for that offload.
    - (scheduled_c14) a stashed value is unstashed once, after the wait for the stash, and used
      after the wait for the unstash.
    - (scheduled_c15) no tensor is split or partial over the pipeline axis.
    - (scheduled_c16) a collective of a program or a class function uses the pipeline axis only
      through `over_pp`. Ranks of another coordinate never join any other collective.
    - (scheduled_c17) an entry has one program for each pipeline coordinate.
    - (scheduled_c18) the attributes of stages are consistent with each other and with the mesh.
    - (scheduled_c19) runs call class functions.
  }];
}

#endif
