// Declares the passes of the sharding phase (level 1 to level 2).
#ifndef PARASHARD_LIB_SHARDING_PASSES_TD
#define PARASHARD_LIB_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def SetMeshPass : Pass<"ps-set-mesh", "::mlir::ModuleOp"> {
  let summary = "adds a mesh of devices to the module";
  let description = [{
    `mesh` has the form NAME[:KIND]=N,...; the last axis varies fastest. The kinds of some names are known: dp is data, tp
    tensor, cp and sp context, ep expert, pp pipeline. Any other name needs a kind. One N may be `*`: the number of
    `ranks` divided by the sizes of the other axes.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"mesh", "mesh", "std::string", "", "NAME[:KIND]=N,... (required)">,
    Option<"ranks", "ranks", "int64_t", "0", "number of ranks; 0: the product of the axis sizes">,
  ];
}

def SeedShardingsPass : Pass<"ps-seed-shardings", "::mlir::ModuleOp"> {
  let summary = "lets a policy choose the shardings of inputs and parameters";
  let description = [{
    The policy is one of:

    * `replicated`: parameters are not split.
    * `megatron`: column and row parallel pairs around attention and in MLPs, and vocabulary parallel embedding and loss,
      found from the structure of the graph.
    * `megatron+sp`: `megatron`, and in addition the sequence is split over the tensor axes, for values that these axes do
      not split otherwise (`ps.later_shardings` on ops).
    * `tables`: the rows of embedding tables, and nothing else.
    * `FILE.json`: the splits in {"GLOB": {"DIM": ["axis", ...]}}; globs match variable names.

    Inputs are split along their batch dim (`ps.batch_dim`, or dim 0) over all data and expert axes.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"replicated\"", "replicated, megatron, megatron+sp, tables or FILE.json">,
  ];
}

def AlignDimsPass : Pass<"ps-align-dims", "::mlir::ModuleOp"> {
  let summary = "pads dims of weights to multiples for which device matmuls are fast";
  let description = [{
    Looks at parameters that a `ps.contract` reads, and at their dims whose size per rank is not divisible by `multiple`.
    The largest such dim is also split over an axis of kind `multiple`, which this pass adds to the mesh. The dim is then
    stored with the next multiple as its size, and the added elements are padding, like those of a dim that does not
    divide among ranks. Values computed from the parameter (such as logits and their gradients) follow by propagation.
    Shapes in files, losses and gradients stay those of the model.

    A dim is padded only if that adds at most `most-waste` percent.
  }];
  let options = [
    Option<"multiple", "multiple", "int64_t", "16", "required divisor of the size per rank; 1: no padding">,
    Option<"mostWaste", "most-waste", "int64_t", "2", "largest allowed padding, in percent">,
  ];
}

def PropagateShardingsPass : Pass<"ps-propagate-shardings", "::mlir::ModuleOp"> {
  let summary = "propagates shardings from the seeds to all values and variables";
  let description = [{
    Propagates factor splits along ops and variables, in both directions, to a fixed point. Partial sums are then reduced
    where the fewest bytes move. See docs/levels.md.

    After the first fixed point, the results of ops are offered their `ps.later_shardings`, on axes
    that do not split them yet. These splits are propagated in turn. A value that can be partial
    over such an axis is partial instead of split, and is reduce-scattered later.

    `zero` is the ZeRO stage (0 to 3). After the splits over model axes, optimizer state (from stage 1), gradients (from 2)
    and parameters (from 3) are also split over the data axes on which they are replicated. These splits are propagated
    too.
  }];
  let options = [Option<"zero", "zero", "int64_t", "0", "ZeRO stage, 0 to 3">];
}

def VerifyPlannedPass : Pass<"ps-verify-planned", "::mlir::ModuleOp"> {
  let summary = "checks the constraints of level 2 without changing the module";
}

def ExplainShardingsPass : Pass<"ps-explain-shardings", "::mlir::ModuleOp"> {
  let summary = "prints the sharding of each parameter and the reason";
  let description = [{
    With `record`, stores the text in the module instead (`ps.explanation`), and stores the location of each
    parameter's first use on the parameter (`ps.used_at`). Later levels need both, since their ops have no
    `ps.shardings`.
  }];
  let options = [Option<"record", "record", "bool", "false", "store the text in the module instead of printing it">];
}

#endif
