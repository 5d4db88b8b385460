// Declares the passes that find a program's segments, assign them to pipeline stages, and schedule
// their runs.
#ifndef PARASHARD_LIB_PIPELINE_PASSES_TD
#define PARASHARD_LIB_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def FindSegmentsPass : Pass<"ps-find-segments", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "assigns a segment to every op of each function except @update";
  let description = [{
    A segment is one instance of a repeated block, or the ops between two blocks. Blocks are found
    from the module paths in locations (`transformer.h.3.attn` belongs to `transformer.h.3`).
    Without such paths, the pass searches the op list for a repeating sequence of ops. A backward op
    has the segment of its forward op. Forward values are used in the same or a later segment,
    backward values in the same or an earlier segment.
  }];
}

def PartitionPipelinePass : Pass<"ps-partition-pipeline", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "assigns segments to the stages of the mesh's pipeline axis";
  let description = [{
    A stage is a contiguous list of segments. The number of stages is the size of the pipeline axis
    times `chunks`. The pass records the cuts in attributes of the module (`ps.stage_cuts`,
    `ps.num_chunks`, `ps.placement`). A module with one stage stays unchanged.

    `method` selects the cuts:
    - `uniform`, `parameters`, `flops` and `time` give each segment a weight: 1, its number of
      parameter elements, or the flops or the time of its forward and backward on the cluster
      (`ps.cluster`). The load of a coordinate is the sum of the weights of its segments. The pass
      minimizes the largest load. Among equal solutions, the one that sends the fewest bytes wins.
    - A list of module paths: a stage begins at each of these modules.
  }];
  let options = [
    Option<"method", "method", "std::string", "\"uniform\"", "uniform, parameters, flops, time, or NAME,NAME,...">,
    Option<"chunks", "chunks", "int64_t", "1", "model chunks (virtual stages) per pipeline coordinate">,
    Option<"placement", "placement", "std::string", "\"loop\"",
           "loop: stage s is on coordinate s mod size; v: the direction alternates">,
  ];
}

def ExplainPipelinePass : Pass<"ps-explain-pipeline", "::mlir::ModuleOp"> {
  let summary = "prints the layers of a pipeline: stage, parameters, flops, bytes";
  let description = [{
    Prints nothing for a module with one stage. With `record`, appends the table to the text of the
    plan (`ps.explanation`) instead of printing it.
  }];
  let options = [Option<"record", "record", "bool", "false",
                        "store the table in the module instead of printing it">];
}

def SchedulePass : Pass<"ps-schedule", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "builds one program per pipeline coordinate from a schedule of micro-batches";
  let description = [{
    Lowers level 3 to level 4. Pipeline coordinate 0 gets the program `rank.program @pp0`, and so
    on. A program runs the forward and backward of its stages for each micro-batch, in the order of
    the schedule, and then the update. Evaluation becomes `@evaluate.pp0` and so on.

    The receive of a value from another coordinate starts one task before the value is used. The
    send starts after the task that produces the value. The wait of the sender is placed where, at
    the simulated times of the schedule, the receiver has started its receive.

    Collectives of the update are merged into buckets. A bucket of gradients starts during the last
    micro-batch, after the last run that adds to one of its gradients. The waits are placed before
    the first uses.

    If the host passes the cotangents (`--loss none`), the program has the sections forward,
    backward and update. All collectives of gradients then start in the update.
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", "1", "micro-batches per step">,
    Option<"schedule", "schedule", "std::string", "\"\"",
           "name of a schedule (lib/Schedules) or FILE.json; empty: 1f1b, or interleaved with "
           "several chunks">,
    Option<"bucketBytes", "bucket-bytes", "int64_t", "25 << 20", "maximum bytes per bucket">,
  ];
}

def OverlapCollectivesPass : Pass<"ps-overlap-collectives", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "prefetches the all-gathers of parameters by one layer";
  let description = [{
    Moves the start of a run's all-gathers before the preceding run that uses all-gathers, so that
    the all-gathers overlap with the preceding run. Gathered parameters of at most two runs exist at
    the same time. An all-gather never moves across an op that may write its variable, or into
    another section.
  }];
}

def OffloadPass : Pass<"ps-offload", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "offloads optimizer state and saved activations to host memory";
  let description = [{
    `what=optimizer` offloads optimizer state and averages. It also offloads f32 weights if forward
    and backward read only their copies in another type. An offloaded variable gets `ps.host`.
    `rank.fetch` copies the variable to the device before the run of the update that uses it.
    `rank.offload` copies the variable back to the host after the run. Scalars, and variables that
    several runs share, stay on the device.

    Runs are grouped into pieces. A piece has at least `piece-bytes` bytes, or an eighth of the
    bytes that the section offloads if this is less. The first piece is fetched where the update
    begins. Before the runs of piece i, the program starts the fetch of piece i + 1, and waits until
    piece i - 2 has been copied back. At most three pieces are therefore on the device.

    `what=activations` offloads results of forward runs and received values that a backward run
    uses. A `rank.stash` after the last earlier use copies the value to the host. A `rank.unstash`
    before the backward run copies the value back. A value is offloaded only if both hold: its
    copies are fully hidden, and offloading lowers the peak of live bytes. The estimate of hidden
    copies uses the cost interface and the rates of the cluster (`ps.cluster`). In each direction,
    one copy runs at a time.

    `what=activations=all` considers only the peak. Each copy overlaps with one run before or after
    it, even if the copy takes longer.

    If nothing can be offloaded, the pass emits a warning and changes nothing.
  }];
  let options = [
    Option<"what", "what", "std::string", "\"optimizer\"",
           "optimizer, activations, activations=all, or several of them separated by commas">,
    Option<"pieceBytes", "piece-bytes", "int64_t", "32 << 20",
           "minimum bytes per fetch, or an eighth of the offloaded bytes if that is less">,
  ];
}

def VerifyScheduledPass : Pass<"ps-verify-scheduled", "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::rank::RankDialect"];
  let summary = "verifies the invariants of level `scheduled`";
  let description = [{
    - (scheduled_c1) every asynchronous op (such as a send or a collective) has a `rank.wait`.
    - (scheduled_c2) results of a collective and received values are used after their wait.
    - (scheduled_c3) the waits of a queue are in the order of its starts.
    - (scheduled_c4) no stage function remains.
    - (scheduled_c5) a program reads each input of each micro-batch with one `rank.input`.
    - (scheduled_c6) between the start of a collective and its wait, no op may write a variable that
      the collective reads.
    - (scheduled_c7) in a queue between two pipeline coordinates, sends and receives match in order,
      value and type.
    - (scheduled_c8) all programs reach their ends, without a deadlock. A wait blocks until its
      operation completes. An operation completes when it is at the head of its queue on every
      member. The error lists which coordinate waits for which.
    - (scheduled_c9) every member of a reduction over pipeline coordinates starts the reduction,
      with equal `ps.reduced` and equal types.
    - (scheduled_c10) segments add to a variable in the order of the micro-batches.
    - (scheduled_c11) `ps.read`, `ps.write` and runs do not access a variable in host memory; runs
      access a fetched copy (`staged`) instead.
    - (scheduled_c12) runs use a fetched variable after the wait for its fetch and before its
      `rank.offload`.
    - (scheduled_c13) a fetched variable is offloaded once, and fetched again only after the wait
      for that offload.
    - (scheduled_c14) a stashed value is unstashed once, after the wait for the stash, and used
      after the wait for the unstash.
    - (scheduled_c15) no tensor is split or partial over the pipeline axis.
    - (scheduled_c16) a collective of a program or a class function uses the pipeline axis only
      through `over_pp`. Any other collective would wait forever, because ranks of other coordinates
      run other programs.
    - (scheduled_c17) each entry function (`step`, `evaluate`, ...) has one program per pipeline
      coordinate.
    - (scheduled_c18) the attributes of stages are consistent with each other and with the mesh.
    - (scheduled_c19) runs call class functions.
  }];
}

#endif
