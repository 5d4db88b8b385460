// The passes of level 0: what an imported graph says in many ops is said in one.
#ifndef PARASHARD_IMPORT_PASSES_TD
#define PARASHARD_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

class ImportPass<string flag> : Pass<flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def RecognizeActivationsPass : ImportPass<"ps-recognize-activations"> {
  let summary = "GELU and SiLU written out become ps.gelu and ps.silu";
  let description = [{
    An elementwise expression of one value and of numbers is an activation where it has its values, in f64, at some ninety
    points from -1e9 to 1e9, whatever the ops are. So backward keeps the operand alone, and not all that it is written with.
  }];
}

def RecognizeAttentionPass : ImportPass<"ps-recognize-attention"> {
  let summary = "softmax(q k^T scale + mask) v written out becomes ps.attention";
  let description = [{
    Scales on q, k or the scores, masks that are added or selected, dropout of the probabilities and casts between
    are taken in. Probabilities that something else reads too stay as they are.
  }];
}

def RecognizeAttentionMasksPass : ImportPass<"ps-recognize-attention-masks"> {
  let summary = "masks proven causal, a band or padding become attributes of their attention";
  let description = [{
    The mask is read as a predicate over (batch, head, query, key): comparisons of linear forms are solved, the rest is
    enumerated where it has at most 4 million places. Of a mask that stays, but hides the same keys from all queries,
    one row is left. Each attention gets `ps.attention_form`.
  }];
}

def RecognizeGroupedQueriesPass : ImportPass<"ps-recognize-grouped-queries"> {
  let summary = "key and value heads that are repeated become grouped queries";
}

def RecognizeLabelsPass : ImportPass<"ps-recognize-labels"> {
  let summary = "what the graph says about labels and token numbers becomes attributes of the inputs";
  let description = [{
    One row of a cross-entropy is followed back twice: its label, and the last token that its logits are made from
    position by position. The label that stands with that token in the data is `ps.labels = "next"` (the data shifts);
    the one that stands after it is "same" (the model shifts, as Hugging Face's do). Inputs that are labels get
    `ps.role`, `ps.ignore`, and like those that index a table `ps.limit`.
  }];
}

def SetInitialValuesPass : ImportPass<"ps-set-initial-values"> {
  let summary = "parameters without values in the file get an initial distribution";
  let description = [{
    For models exported on the `meta` device. The first rule whose glob matches the parameter's name wins; a parameter
    that no rule matches is an error that names it, and so is a glob that matches no parameter. With `given`, weights
    come when the program runs: rules are of all parameters, also of those with values, and none needs one.
  }];
  let options = [
    Option<"init", "init", "std::string", "\"\"",
           "rules separated by ';': [GLOB=]normal(std), normal(mean,std), uniform(lo,hi), zeros, ones, value(x)">,
    Option<"given", "given", "bool", "false", "weights come when the program runs">,
  ];
}

def CheckModePass : ImportPass<"ps-check-mode"> {
  let summary = "warns once when the model was exported in eval mode and trains with dropout off";
  let description = [{
    Before anything folds: a dropout that is off is the identity. Where the export leaves none (attention with
    `dropout_p = 0`, decomposed graphs), nothing can be said.
  }];
}

def SplitFusedVariablesPass : ImportPass<"ps-split-fused-variables"> {
  let summary = "a weight whose matmul is read in parts becomes one variable a part";
  let description = [{
    Fused q, k, v or gate and up: each part can then have its own sharding. The parts keep the model's name and are
    slices of its tensor in the file. Weights without a file are left whole.
  }];
}

def VerifyImportedPass : ImportPass<"ps-verify-imported"> {
  let summary = "checks what holds at level `imported`";
  let description = [{
    * `imported_c1`: the module has variables and functions with a body, nothing else.
    * `imported_c2`: functions have ops of the dialect `ps`; no collective, no phase.
    * `imported_c3`: every op has a source location: a line of the model's code, or the file that it was read from.
  }];
}

#endif
