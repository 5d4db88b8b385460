// The passes of the sharding phase: level 1 to level 2.
#ifndef PARASHARD_LIB_SHARDING_PASSES_TD
#define PARASHARD_LIB_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def SetMeshPass : Pass<"ps-set-mesh", "::mlir::ModuleOp"> {
  let summary = "puts the mesh of devices into the module";
  let description = [{
    `mesh` is NAME[:KIND]=N,...; the last axis varies fastest. dp is of kind data, tp tensor, cp and sp
    context, ep expert, pp pipeline; another name needs its kind. One axis may be `*`: it fills up `ranks`.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"mesh", "mesh", "std::string", "", "NAME[:KIND]=N,...; must be given">,
    Option<"ranks", "ranks", "int64_t", "0", "number of ranks; 0: the mesh's matmul">,
  ];
}

def SeedShardingsPass : Pass<"ps-seed-shardings", "::mlir::ModuleOp"> {
  let summary = "lets a policy decide the shardings of inputs and parameters";
  let description = [{
    `replicated`: parameters whole. `megatron`: column and row parallel pairs around attention and in MLPs,
    vocabulary parallel embedding and loss, found from the graph's structure. `megatron+sp`: the
    sequence over the tensor axes too, where these split nothing else (`ps.later_shardings` on ops). `FILE.json`:
    {"GLOB": {"DIM": ["axis", ...]}} on variable names. Inputs are split along their batch dim (`ps.batch_dim`, else dim 0) over
    all data and expert axes.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"replicated\"", "replicated, megatron, megatron+sp or FILE.json">,
  ];
}

def AlignDimsPass : Pass<"ps-align-dims", "::mlir::ModuleOp"> {
  let summary = "pads dims of weights to multiples that matmuls on a device are fast with";
  let description = [{
    A parameter that a `ps.contract` reads, whose largest odd dim has a number of places on a rank that `multiple` does not
    divide, gets that dim split over an axis of kind `multiple` as well, which this pass adds to the mesh: it is held in
    so many places as the next multiple, the rest of them padding, as where a dim does not divide among ranks. What
    matmuls make of it (a vocabulary's logits and their gradients) follows by propagation. Nothing else changes: shapes in
    files, losses and gradients are the model's.

    A dim is padded where that adds `most-waste` percent at most.
  }];
  let options = [
    Option<"multiple", "multiple", "int64_t", "16", "1: nothing is padded">,
    Option<"mostWaste", "most-waste", "int64_t", "2", "percent">,
  ];
}

def PropagateShardingsPass : Pass<"ps-propagate-shardings", "::mlir::ModuleOp"> {
  let summary = "completes the shardings of all values and variables from the seeds";
  let description = [{
    Factors flow along ops and variables in both directions to a fixpoint; then partial sums are
    placed where reducing them moves the fewest bytes. See docs/levels.md.

    `ps.later_shardings` on ops are offered to their results once the other splits are known, on the axes that split nothing
    of them, and propagated; they yield to partial sums, which are then scattered where they end.

    `zero` (0 to 3) is the ZeRO stage: once the splits over model axes are known, optimizer state (from 1 on), gradients (2) and
    parameters (3) are also split over the data axes that hold copies of them, and that is propagated too.
  }];
  let options = [Option<"zero", "zero", "int64_t", "0", "ZeRO stage, 0 to 3">];
}

def VerifyPlannedPass : Pass<"ps-verify-planned", "::mlir::ModuleOp"> {
  let summary = "checks what must hold at level 2; changes nothing";
}

def ExplainShardingsPass : Pass<"ps-explain-shardings", "::mlir::ModuleOp"> {
  let summary = "prints why each parameter is sharded as it is, and every collective of a step";
  let description = [{
    With `record`, keeps the words in the module instead (`ps.explanation`), and on each parameter where the
    model first uses it (`ps.used_at`): later levels have no marks to read them from.
  }];
  let options = [Option<"record", "record", "bool", "false", "keep the words in the module">];
}

#endif
