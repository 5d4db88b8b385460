// Declares the passes of the sharding phase (level 1 to level 2).
#ifndef PARASHARD_LIB_SHARDING_PASSES_TD
#define PARASHARD_LIB_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def SetMeshPass : Pass<"ps-set-mesh", "::mlir::ModuleOp"> {
  let summary = "adds a mesh of devices to the module, and records its cluster";
  let description = [{
    `mesh` has the form NAME[:KIND]=N,...; the last axis varies fastest. Some names imply a kind: dp
    is data, tp tensor, cp and sp context, ep expert, pp pipeline. Any other name needs a kind. One
    N may be `*`: `ranks` divided by the number of devices of the other axes.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"mesh", "mesh", "std::string", "", "NAME[:KIND]=N,... (required)">,
    Option<"ranks", "ranks", "int64_t", "0", "number of ranks, the size of the mesh; 0: computed from the axes">,
    Option<"cluster", "cluster", "std::string", "", "cluster to record (`ps.cluster`): a preset or FILE.json">,
  ];
}

def SeedShardingsPass : Pass<"ps-seed-shardings", "::mlir::ModuleOp"> {
  let summary = "lets a policy choose the shardings of inputs and parameters";
  let description = [{
    The policy is one of:

    * `replicated`: parameters are not split.
    * `megatron`: column-parallel and row-parallel pairs around attention and in MLPs, and
      vocabulary-parallel embedding and loss. The policy finds these from the structure of the
      graph.
    * `megatron+sp`: like `megatron`. In addition, values that the tensor axes would not split are
      split along the sequence (`ps.later_shardings` on ops).
    * `searched`: the splits with the least predicted time on the cluster, found by a search.
    * `searched+memory`: like `searched`, but memory counts as much as time.
    * `tables`: splits the rows of embedding tables, and no other parameter.
    * `FILE.json`: the splits in {"GLOB": {"DIM": ["axis", ...]}}; globs match names of parameters.
      Entries {"PATH:OP": ...} split the results of ops.
    * the text of such a file, which begins with `{`.

    Inputs are split along their batch dim (`ps.batch_dim`, or dim 0) over all data and expert axes.
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"replicated\"", "replicated, megatron, megatron+sp, searched, searched+memory, tables or FILE.json">,
  ];
}

def AlignDimsPass : Pass<"ps-align-dims", "::mlir::ModuleOp"> {
  let summary = "pads dims of weights to multiples for which GPU matmuls are fast";
  let description = [{
    For each parameter that a `ps.contract` reads, pads the largest dim whose size per rank is not
    divisible by `multiple`. The pass splits this dim over an additional axis of kind `multiple`,
    which rounds the size per rank up to the next multiple. Example: 50257 rows over tp=2 give 25136
    rows per rank. The added elements are padding, as in a dim that does not divide evenly over its
    axes. By propagation, values computed from the parameter (such as logits and their gradients)
    are padded too. Shapes in files, losses and gradients do not change.

    A dim is padded only if its size grows by at most `max-waste` percent.
  }];
  let options = [
    Option<"multiple", "multiple", "int64_t", "16", "required divisor of the size per rank; 1: no padding">,
    Option<"maxWaste", "max-waste", "int64_t", "2",
           "largest allowed growth of a dim by padding, in percent">,
  ];
}

def PropagateShardingsPass : Pass<"ps-propagate-shardings", "::mlir::ModuleOp"> {
  let summary = "propagates shardings from the seeds to all values and variables";
  let description = [{
    Propagates factor splits along ops and variables, in both directions, to a fixed point. See
    docs/levels.md.

    After the first fixed point, the pass adds the splits of `ps.later_shardings` to results of ops,
    on axes that do not split them yet, and propagates again. A value that can be partial over such
    an axis stays partial, and its sum is reduce-scattered.

    `zero` is the ZeRO stage (0 to 3). The pass then splits optimizer state (from stage 1 on),
    gradients (from 2 on) and parameters (from 3 on) over the data, expert and context axes on which
    they are replicated, and propagates these splits too.

    Finally, the pass chooses which values stay partial, so that reductions move the fewest bytes.
  }];
  let options = [Option<"zero", "zero", "int64_t", "0", "ZeRO stage, 0 to 3">];
}

def VerifyPlannedPass : Pass<"ps-verify-planned", "::mlir::ModuleOp"> {
  let summary = "verifies the invariants of level `planned`";
}

def ExplainShardingsPass : Pass<"ps-explain-shardings", "::mlir::ModuleOp"> {
  let summary = "prints the sharding of each parameter and the reason";
  let description = [{
    Also prints the form of each attention, and the values that a policy splits. With `record`,
    stores the text in the module instead (`ps.explanation`), and stores the location of each
    parameter's first use on the parameter (`ps.used_at`). Later levels need both attributes,
    because their ops have no `ps.shardings`.
  }];
  let options = [Option<"record", "record", "bool", "false", "store the text in the module instead of printing it">];
}

#endif
