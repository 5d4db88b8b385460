// Declares the passes of level 0, which replace groups of exported ops by single ops.
#ifndef PARASHARD_IMPORT_PASSES_TD
#define PARASHARD_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

class ImportPass<string flag> : Pass<flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def RecognizeActivationsPass : ImportPass<"ps-recognize-activations"> {
  let summary = "replaces elementwise expressions of GELU and SiLU by ps.gelu and ps.silu";
  let description = [{
    Evaluates elementwise expressions of one value and constants in f64, at about ninety points from -1e9 to 1e9.
    Replaces each expression that has the values of an activation, whatever its ops are. The backward then only needs
    the operand of the activation, instead of all intermediate values.
  }];
}

def RecognizeAttentionPass : ImportPass<"ps-recognize-attention"> {
  let summary = "replaces softmax(q k^T scale + mask) v by ps.attention";
  let description = [{
    Also matches scales of q, k or the scores, masks that are added or applied by a select, dropout of the
    probabilities, and casts between these ops. Does not match if another op uses the probabilities.
  }];
}

def RecognizeAttentionMasksPass : ImportPass<"ps-recognize-attention-masks"> {
  let summary = "replaces causal, band and padding masks by attributes of ps.attention";
  let description = [{
    Interprets a mask as a predicate over (batch, head, query, key). Comparisons of linear expressions are solved; other
    predicates are evaluated at every (query, key), for at most 2^22 pairs. A remaining mask that hides the same keys from
    all queries is reduced to one row. Sets `ps.attention_form` on each attention.
  }];
}

def RecognizeGroupedQueriesPass : ImportPass<"ps-recognize-grouped-queries"> {
  let summary = "replaces repeated key and value heads by grouped-query attention";
}

def RecognizeLabelsPass : ImportPass<"ps-recognize-labels"> {
  let summary = "sets attributes on the inputs that are labels or token ids";
  let description = [{
    Traces some rows of a cross-entropy back to their labels, and to the last token that their logits are computed from
    without mixing positions. If label and token have the same position, sets `ps.labels = "next"` on the module: the
    data must contain shifted labels. If the label is one position later, sets "same": the model shifts the labels, as
    in Hugging Face models. Sets `ps.role` and `ps.ignore` on labels. Sets `ps.limit` on labels, and on inputs that index
    a table.
  }];
}

def SetInitialValuesPass : ImportPass<"ps-set-initial-values"> {
  let summary = "sets the initial distribution of parameters without values in the model's file";
  let description = [{
    For models exported on the `meta` device. The first rule whose glob matches a parameter's name applies. A parameter
    without a matching rule, and a glob without a matching parameter, are errors. With `given`, the user provides the
    weights when the program runs: rules apply to all parameters, even to those with values, and no parameter needs a
    rule.
  }];
  let options = [
    Option<"init", "init", "std::string", "\"\"",
           "rules, separated by ';': [GLOB=]normal(std), normal(mean,std), uniform(lo,hi), zeros, ones, value(x)">,
    Option<"given", "given", "bool", "false", "the user provides the weights when the program runs">,
  ];
}

def CheckModePass : ImportPass<"ps-check-mode"> {
  let summary = "warns once if the model was exported in eval mode and would train without dropout";
  let description = [{
    Must run before ops are folded, since a dropout that is off folds to its operand. Cannot detect eval mode in an
    export without dropout ops (attention with `dropout_p = 0`, decomposed graphs).
  }];
}

def SplitFusedVariablesPass : ImportPass<"ps-split-fused-variables"> {
  let summary = "splits a weight whose matmul result is only used in slices into one variable per slice";
  let description = [{
    Splits weights such as fused q, k, v, or fused gate and up, so that each part can have its own sharding. The initial
    value of a part is a slice of the weight in the model's file, and `names` does not change. Weights without a file are
    not split.
  }];
}

def VerifyImportedPass : ImportPass<"ps-verify-imported"> {
  let summary = "checks the constraints of level `imported` without changing the module";
  let description = [{
    * `imported_c1`: the module contains only variables, and functions with a body.
    * `imported_c2`: functions contain only ops of the dialect `ps`, without collectives and phases.
    * `imported_c3`: every op has a source location: a line of the model's code, or the model file.
  }];
}

#endif
