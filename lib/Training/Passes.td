// Declares the passes of level 1 (training).
#ifndef PARASHARD_TRAINING_PASSES_TD
#define PARASHARD_TRAINING_PASSES_TD

include "mlir/Pass/PassBase.td"

def AddLossPass : Pass<"ps-add-loss", "::mlir::ModuleOp"> {
  let summary = "adds a loss and an input `labels` to a model that does not return a loss";
  let description = [{
    Adds `loss` as the last output. Its kind is one of:

    * `cross_entropy`: the last dim of the output contains the classes, and the labels have the
      other dims of the output. Label -100 is ignored. The loss is the mean over the other labels.
    * `causal_lm`: like `cross_entropy`, for an output [batch, length, classes]. The output at
      position t is compared with label t + 1, so the labels are the tokens themselves.
    * `mse`: the mean of the squared differences over all elements.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"kind", "kind", "std::string", "\"\"", "cross_entropy, causal_lm or mse">,
    Option<"output", "output", "std::string", "\"\"",
      "number or name of the output from which the loss is computed; empty: output 0 if its "
      "shape fits, else the only output that fits">,
  ];
}

def AutodiffPass : Pass<"ps-autodiff", "::mlir::ModuleOp"> {
  let summary = "replaces forward by micro_batch (forward and backward), evaluate and update";
  let description = [{
    Visits the ops of `@forward` in reverse, and builds the derivative of every op on a path from a
    trained parameter to the loss. See docs/levels.md, level 1.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"loss", "loss", "std::string", "\"\"",
      "number or name of the loss output; none: cotangents are arguments; empty: output 0 if it is a "
      "floating-point scalar, else the only such output">,
    Option<"differentiate", "differentiate", "std::string", "\"\"",
      "outputs that get cotangents with loss=none, separated by ';'; empty: all floating-point outputs">,
    Option<"freeze", "freeze", "std::string", "\"\"", "globs of parameters that are not trained, separated by ';'">,
    Option<"lossAverage", "loss-average", "std::string", "\"\"",
      "step or micro-batch; empty: step if the loss is made of sums and means over samples">,
    Option<"batchDims", "batch-dims", "std::string", "\"\"",
      "INPUT=D, INPUT=none or none (no input has a batch dim), separated by ';'; default: dim 0 of each input">,
    Option<"evalMode", "eval-mode", "bool", "false", "train the model in eval mode, as after model.eval()">,
    Option<"scaleLoss", "scale-loss", "bool", "false",
      "dynamic loss scaling: multiply the initial cotangent (with loss=none, all cotangents) by a "
      "scale that ps-optimizer adapts">,
    Option<"inference", "inference", "bool", "false", "build evaluate only; the model needs no loss">,
    Option<"keepOutputs", "keep-outputs", "std::string", "\"\"",
      "outputs that a step with a loss returns, by number or name, separated by ';'; all: all outputs "
      "except the loss and those with one value per micro-batch">,
  ];
}

def OptimizerPass : Pass<"ps-optimizer", "::mlir::ModuleOp"> {
  let summary = "adds to `@update` the optimizer step of every trained parameter";
  let description = [{
    If the loss is scaled (`@loss_scale`), gradients are divided by the scale. A step with a
    gradient that is not finite is skipped: neither parameters nor their state change, and the scale
    is halved. The scale is doubled after 2000 finite steps in a row. torch.amp.GradScaler works the
    same way.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"\"",
      "[GLOB=|ndim<2=]sgd|adam|adamw(key=value,...), separated by ';'; first match wins">,
    Option<"clipNorm", "clip-norm", "double", "0", "maximum global norm of the gradients; 0: no clipping">,
    Option<"ema", "ema", "double", "0", "decay of the parameters' moving averages; 0: no averages">,
  ];
}

def CountFlopsPass : Pass<"ps-count-flops", "::mlir::ModuleOp"> {
  let summary = "counts the floating-point operations of a micro-batch (ps.flops on the module)";
  let description = [{
    Counts the operations of contractions, convolutions and attentions of the whole model, before
    sharding and recomputation. Model FLOPs utilization (MFU) is computed from this count. If the
    module has no `@micro_batch`, the operations of `@evaluate` are counted.
  }];
}

def VerifyTrainingPass : Pass<"ps-verify-training", "::mlir::ModuleOp"> {
  let summary = "verifies the invariants of level `training`";
  let description = [{
    * `training_c1`: the level of the module is `training` or later.
    * `training_c2`: the module has `@micro_batch`, `@evaluate` and `@update`. For inference it has
      `@evaluate` alone. `@count` and inference entries are optional.
    * `training_c3`: every op of these functions has a phase. `module_c4` restricts the phases.
    * `training_c4`: `@evaluate` and `@count` have no `ps.write`.
    * `training_c5`: every gradient variable is accumulated.
  }];
}

#endif
