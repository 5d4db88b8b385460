// The pass that decides in which type each op computes (level 2).
#ifndef PARASHARD_LIB_PRECISION_PASSES_TD
#define PARASHARD_LIB_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrecisionPass : Pass<"ps-precision", "::mlir::ModuleOp"> {
  let summary = "lets contractions and attention compute in a 16-bit type";
  let description = [{
    Each op of the entries but `@update` is of a class (docs/precision.md has the table):

    * `compute`: its tensors are converted to the 16-bit type, where it depends on a parameter or a floating input;
      a weight's gradient is yielded in f32.
    * `fp32`: its operands are converted to f32.
    * `widest`: it has the widest type of its operands; a bias that is added to what a `compute` op yields takes that type.

    `bf16` and `fp16` keep parameters, gradients and optimizer state in f32. A weight's conversion is a variable of kind
    `copy`, written where the weight is. `half` holds parameters, gradients, optimizer state and averages in bf16, and
    ops of class `fp32` take 16-bit operands (they compute in f32 inside). `keep-fp32=GLOB` and `compute=GLOB` override the
    class of ops by name (`ps.softmax`) or by the path of their module.
    `fp8` is `bf16`, and then both operands of each linear layer, forward and backward, are rounded by `ps.quantize` and are
    what `ps.dequantize` gives; with delayed scaling each has variables `fp8.NAME.unit`, `.amax.history` and `.amax.now`, which
    `@micro_batch` and `@update` keep.
    Inserted conversions are `ps.convert`; a value that is widened is saved for backward as it was.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"precision", "precision", "std::string", "\"fp32\"",
      "fp32, bf16, fp16, half or fp8[,keep-fp32=GLOB][,compute=GLOB][,KEY=VALUE of fp8]">,
    Option<"gradientReduction", "gradient-reduction", "std::string", "\"fp32\"",
      "fp32 or bf16: the type in which gradients are added up over ranks">,
    Option<"zero", "zero", "int64_t", "0",
      "the stage of ZeRO: from 2 on gradients are added up over ranks in each micro-batch">,
  ];
}

#endif
