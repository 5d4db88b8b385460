// Declares the passes that prepare an imported module for autodiff: they recognize ops, set initial
// values, and check the module.
#ifndef PARASHARD_IMPORT_PASSES_TD
#define PARASHARD_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

class ImportPass<string flag> : Pass<flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def RecognizeActivationsPass : ImportPass<"ps-recognize-activations"> {
  let summary = "replaces expressions that compute GELU or SiLU by ps.gelu or ps.silu";
  let description = [{
    Evaluates each elementwise expression of one tensor and constants in f64, at 75 points between
    -1e9 and 1e9. An expression that has the values of an activation at all points is replaced,
    whatever its ops are. The backward pass then needs only the operand of the activation, so the
    intermediate values are not saved.
  }];
}

def RecognizeAttentionPass : ImportPass<"ps-recognize-attention"> {
  let summary = "replaces softmax(q k^T scale + mask) v by ps.attention";
  let description = [{
    Also matches a scale on q, k or the scores, a mask applied by an addition or a select, dropout
    of the probabilities, and casts in between. Does not match if another op reads the
    probabilities.
  }];
}

def RecognizeAttentionMasksPass : ImportPass<"ps-recognize-attention-masks"> {
  let summary = "replaces causal, band and padding masks by attributes and operands of attention";
  let description = [{
    Interprets a mask as a predicate over (batch, head, query, key). Comparisons of linear index
    expressions, such as key <= query, are solved symbolically. Other predicates are evaluated for
    all elements, if there are at most 4 million. A remaining mask that hides the same keys from all
    queries is reduced to one row. Each attention gets `ps.attention_form`.
  }];
}

def RecognizeGroupedQueriesPass : ImportPass<"ps-recognize-grouped-queries"> {
  let summary = "replaces repeated key and value heads by grouped-query attention";
}

def RecognizeLabelsPass : ImportPass<"ps-recognize-labels"> {
  let summary = "finds the inputs that are labels or token ids, from their uses";
  let description = [{
    Finds the position of the label of one row of a cross-entropy, and the position of the last
    token on which the row's logits depend. If the positions are equal, the module gets `ps.labels =
    "next"`: the label at a position must be the next token, so the data must shift the labels. If
    the label's position is one higher, the module gets `ps.labels = "same"`: the model shifts the
    labels, as Hugging Face models do. Inputs that are labels get `ps.role` and `ps.ignore`. Labels
    and inputs of embeddings get `ps.limit`.
  }];
}

def SetInitialValuesPass : ImportPass<"ps-set-initial-values"> {
  let summary = "sets the initial distribution of parameters that have no values in the file";
  let description = [{
    For models exported on the `meta` device. The first rule whose glob matches the parameter's name
    wins. A parameter without a matching rule, and a glob without a matching parameter, are errors.
    With `given`, the weights are provided when the program runs. Rules then apply to all
    parameters, also to those with values, and a parameter without a rule is not an error.
  }];
  let options = [
    Option<"init", "init", "std::string", "\"\"",
           "rules separated by ';': [GLOB=]normal(std), normal(mean,std), uniform(lo,hi), zeros, ones, value(x)">,
    Option<"given", "given", "bool", "false", "the weights are provided when the program runs">,
  ];
}

def CheckModePass : ImportPass<"ps-check-mode"> {
  let summary = "warns if a model to be trained was exported in eval mode";
  let description = [{
    Warns once about dropouts that are off, and once about batch norms that train with running
    statistics. Must run before any folding, because a dropout in eval mode folds to its operand.
    Exports that omit inactive dropouts (attention with `dropout_p = 0`, decomposed graphs) cannot
    be checked.
  }];
}

def SplitFusedVariablesPass : ImportPass<"ps-split-fused-variables"> {
  let summary = "splits a weight into one variable per part, if only slices of its matmul are used";
  let description = [{
    Splits weights such as fused q, k, v, or fused gate and up, so that each part can have its own
    sharding. Each part keeps the name of the model's tensor, and is a slice of this tensor in the
    file. Weights without a file are not split.
  }];
}

def VerifyImportedPass : ImportPass<"ps-verify-imported"> {
  let summary = "verifies the invariants of level `imported`";
  let description = [{
    * `imported_c1`: the module has only variables, and functions with a body.
    * `imported_c2`: functions have only ops of the dialect `ps`, without collectives and phases.
    * `imported_c3`: every op has a source location: a line of the model's code, or the model file.
  }];
}

#endif
