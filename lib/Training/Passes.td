// The passes of level 1.
#ifndef PARASHARD_TRAINING_PASSES_TD
#define PARASHARD_TRAINING_PASSES_TD

include "mlir/Pass/PassBase.td"

def AddLossPass : Pass<"ps-add-loss", "::mlir::ModuleOp"> {
  let summary = "a model that returns no loss gets one, against a new input labels";
  let description = [{
    `cross_entropy`: classes in the last dim, labels of the shape before it, -100 ignored, the mean over the labels
    that count. `causal_lm`: the same of [batch, length, classes] against the next label (labels are the tokens).
    `mse`: the mean over all elements. The new output is `loss`, the last one.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"kind", "kind", "std::string", "\"\"", "cross_entropy, causal_lm or mse">,
    Option<"output", "output", "std::string", "\"\"",
      "number or name of the output that it is of; empty: the first, or the only one that fits">,
  ];
}

def AutodiffPass : Pass<"ps-autodiff", "::mlir::ModuleOp"> {
  let summary = "forward becomes micro_batch (forward and backward), evaluate and update";
  let description = [{
    Walks `@forward` in reverse, where a parameter that is trained needs it, and asks every op for its
    derivative. See docs/levels.md, level 1.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"loss", "loss", "std::string", "\"\"",
      "number or name of the loss output; none: cotangents are arguments; empty: the only floating scalar">,
    Option<"differentiate", "differentiate", "std::string", "\"\"",
      "outputs that get cotangents when the loss is none, separated by ';'">,
    Option<"freeze", "freeze", "std::string", "\"\"", "globs of parameters not to train, separated by ';'">,
    Option<"lossAverage", "loss-average", "std::string", "\"\"", "step or micro-batch; empty: step where recognised">,
    Option<"batchDims", "batch-dims", "std::string", "\"\"", "INPUT=D, INPUT=none or none, separated by ';'; else dim 0">,
    Option<"evalMode", "eval-mode", "bool", "false", "train the model as model.eval() has it">,
    Option<"scaleLoss", "scale-loss", "bool", "false",
      "start backward from a scale that ps-optimizer adapts, not from 1; without a loss, multiply cotangents by it">,
    Option<"inference", "inference", "bool", "false", "make evaluate alone; the model needs no loss">,
  ];
}

def OptimizerPass : Pass<"ps-optimizer", "::mlir::ModuleOp"> {
  let summary = "adds the step of every trained parameter to update";
  let description = [{
    Where the loss is scaled (`@loss_scale`), gradients are divided by the scale, and a step whose gradients are not all
    finite is skipped: neither parameters nor their state change. The scale is then halved; it is doubled after 2000
    finite steps in a row (as torch.amp.GradScaler does it).
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"\"",
      "[GLOB=|ndim<2=]sgd|adam|adamw(key=value,...), separated by ';'; first match wins">,
    Option<"clipNorm", "clip-norm", "double", "0", "largest norm of all gradients together; 0: any">,
    Option<"ema", "ema", "double", "0", "decay of the parameters' averages; 0: none">,
  ];
}

def CountFlopsPass : Pass<"ps-count-flops", "::mlir::ModuleOp"> {
  let summary = "marks the module with the floating-point operations of a micro-batch (ps.flops)";
  let description = [{
    Of contractions, convolutions and attentions of the whole model, before anything is split or computed twice: what
    model-flops use is measured by. Where there is no `@micro_batch`, those of `@evaluate`.
  }];
}

def VerifyTrainingPass : Pass<"ps-verify-training", "::mlir::ModuleOp"> {
  let summary = "checks what must hold at level 1; changes nothing";
}

#endif
