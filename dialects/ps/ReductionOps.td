// Reductions over dims.
include "dialects/ps/Base.td"

def PS_ReduceOp : PS_TensorOp<"reduce", [PS_Row, PS_Differentiable, PS_Cost, PS_Precision<"Fp32">]> {
  let summary = "combines all elements along `dims`, which go away";
  let description = [{
    A sum of floats is taken in the element type's rounding only at its end (f32 for 16-bit types).
    - (reduce_c1) `dims` are increasing dims of the operand.
    - (reduce_c2) the result's shape is the rest.
    ```mlir
    %0 = ps.reduce sum %a dims [1] : tensor<2x3xf32> -> tensor<2xf32>
    ```
  }];
  let arguments = (ins PS_ReductionKindAttr:$kind, PS_NumberTensor:$operand, DenseI64ArrayAttr:$dims);
  let results = (outs PS_NumberTensor:$result);
  let assemblyFormat = "`` $kind $operand `dims` $dims attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "ReductionKind":$kind, "::mlir::Value":$operand, "::llvm::ArrayRef<int64_t>":$dims)>];
}
