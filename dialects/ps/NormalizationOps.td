// Defines normalization along the last dim.
include "dialects/ps/Base.td"

def PS_LayerNormOp : PS_TensorOp<"layer_norm", [PS_Row, PS_Differentiable, PS_Partition, PS_Cost, PS_Precision<"Fp32", 1, 1>]> {
  let summary = "computes (x - mean) * rstd along the last dim, and rstd";
  let description = [{
    The weight and the bias of a layer norm are a separate `ps.mul` and `ps.add`. rstd = 1 /
    sqrt(variance + epsilon) with the biased variance. `rstd` lacks the last dim and is f32 (f64 for
    f64).

    Lifespan: created by the importers (level 0); used by code generation.

    Constraints:
    - (layer_norm_c1) the operand has at least one dim.
    - (layer_norm_c2) `rstd` has the operand's shape without the last dim.
    ```mlir
    %y, %r = ps.layer_norm %x epsilon 1.0e-5 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$operand, F64Attr:$epsilon);
  let results = (outs PS_FloatTensor:$result, PS_FloatTensor:$rstd);
  let assemblyFormat = "$operand `epsilon` $epsilon attr-dict `:` type($operand) `->` type($result) `,` type($rstd)";
  let hasVerifier = 1;
}

def PS_LayerNormGradOp : PS_TensorOp<"layer_norm_grad", [AllTypesMatch<["cotangent", "normalized", "result"]>, PS_Row, PS_Partition, PS_Cost, PS_Precision<"Fp32", 2, 1>]> {
  let summary = "computes the cotangent of layer_norm's operand: rstd (g - mean(g) - y mean(g y)) along the last dim";
  let description = [{
    Lifespan: created by `ps-autodiff` (level 1); used by code generation.
    ```mlir
    %d = ps.layer_norm_grad %g, %y, %r : tensor<4x8xf32>, tensor<4xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$cotangent, PS_FloatTensor:$normalized, PS_FloatTensor:$rstd);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "$cotangent `,` $normalized `,` $rstd attr-dict `:` type($result) `,` type($rstd)";
  let hasVerifier = 1;
}

class PS_RowMapOp<string mnemonic, list<Trait> traits = []>
    : PS_TensorOp<mnemonic, !listconcat([SameOperandsAndResultType, PS_Row, PS_Differentiable, PS_Partition, PS_Cost], traits)> {
  let arguments = (ins PS_FloatTensor:$operand);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}
def PS_SoftmaxOp : PS_RowMapOp<"softmax", [PS_Precision<"Fp32">]> {
  let summary = "exp(x - max) / sum along the last dim";
  let description = [{
    Lifespan: created by the importers (level 0); used by code generation.
    ```mlir
    %y = ps.softmax %x : tensor<4x8xf32>
    ```
  }];
}
def PS_LogSoftmaxOp : PS_RowMapOp<"log_softmax", [PS_Precision<"Fp32">]> {
  let summary = "x - log(sum(exp(x))) along the last dim";
  let description = [{
    Lifespan: created by the importers (level 0); used by code generation.
    ```mlir
    %y = ps.log_softmax %x : tensor<4x8xf32>
    ```
  }];
}
def PS_SoftmaxGradOp : PS_TensorOp<"softmax_grad", [SameOperandsAndResultType, PS_Row, PS_Partition, PS_Cost, PS_Precision<"Fp32">]> {
  let summary = "computes the cotangent of softmax's operand: y (g - sum(g y)) along the last dim";
  let description = [{
    Lifespan: created by `ps-autodiff` (level 1); used by code generation.
    ```mlir
    %d = ps.softmax_grad %g, %y : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$cotangent, PS_FloatTensor:$softmax);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "$cotangent `,` $softmax attr-dict `:` type($result)";
}
