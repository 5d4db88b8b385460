// Defines reductions over dims.
include "dialects/ps/Base.td"

def PS_ReduceOp : PS_TensorOp<"reduce", [PS_Row, PS_Differentiable, PS_Cost, PS_Precision<"Fp32">]> {
  let summary = "reduces all elements along `dims`, and removes these dims";
  let description = [{
    Sums of 16-bit floats are accumulated in f32 and rounded once at the end.

    Lifespan: created by the importers, and by passes up to level 3; used by code generation.

    Constraints:
    - (reduce_c1) `dims` are increasing dims of the operand.
    - (reduce_c2) the result has the remaining dims.
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
