// Declares the pass that chooses the type in which each op computes (level 2).
#ifndef PARASHARD_LIB_PRECISION_PASSES_TD
#define PARASHARD_LIB_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrecisionPass : Pass<"ps-precision", "::mlir::ModuleOp"> {
  let summary = "sets the compute types of ops: fp32, bf16, fp16 or fp8";
  let description = [{
    Each op outside of `@update` has a precision class (see the table in docs/precision.md):

    * `compute`: if the op depends on a parameter or a floating-point input, its operands and
      results are converted to the 16-bit type. Results that are gradients of weights are f32,
      except with `half`.
    * `fp32`: operands are converted to f32, and results are f32.
    * `widest`: the op has the widest type of its operands. A bias that is added to the result of a
      `compute` op is converted to the type of this result.

    The types of variables and operands depend on the precision:

    * `bf16` and `fp16` keep parameters, gradients and optimizer state in f32. The 16-bit version of
      a weight is a variable of kind `copy`, which is written together with the weight.
    * `half` stores parameters, gradients, optimizer state and averages in bf16. Ops of class `fp32`
      read 16-bit operands and compute in f32 internally.
    * `fp8` starts from `bf16`. Both operands of each linear layer, in forward and backward, then
      pass through `ps.quantize` and `ps.dequantize`. With delayed scaling, each tensor has the
      variables `fp8.NAME.scale` (its scale), `fp8.NAME.amax.history` and `fp8.NAME.amax.now`, which
      `@micro_batch` and `@update` maintain.

    `keep-fp32=GLOB` and `compute=GLOB` override the class of ops by their name (`ps.softmax`) or by
    the path of their module. Conversions are `ps.convert` ops. If backward needs a wide value of
    forward, backward converts the 16-bit value again, so that only the 16-bit value is saved.
  }];
  let dependentDialects = ["::parashard::ps::PSDialect"];
  let options = [
    Option<"precision", "precision", "std::string", "\"fp32\"",
      "fp32, bf16, fp16, half or fp8[,keep-fp32=GLOB][,compute=GLOB][,KEY=VALUE for fp8]">,
    Option<"gradientReduction", "gradient-reduction", "std::string", "\"fp32\"",
      "fp32 or bf16: type in which gradients are reduced over ranks">,
    Option<"zero", "zero", "int64_t", "0",
      "ZeRO stage; from 2 on, gradients are reduced over ranks in each micro-batch">,
  ];
}

#endif
