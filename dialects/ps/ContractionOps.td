// Contractions: every matmul, linear layer and batched product is one op.
include "dialects/ps/Base.td"

def PS_ContractOp : PS_TensorOp<"contract", [PS_Library, PS_Differentiable, PS_Cost]> {
  let summary = "a product of two tensors summed over the labels that the result lacks";
  let description = [{
    Einsum with number labels: `lhs`, `rhs`, `result` give each dim a label. A label in both operands
    and the result is a batch label; in both operands only, contracted; in one operand and the result,
    free. Products are summed in f32 (f64 for f64).
    - (contract_c1) each list has one label a dim, no label twice in a list.
    - (contract_c2) dims with one label have one size ("contracted dim has size 768 on the left and 512 on the right").
    - (contract_c3) every result label is in an operand; a label of one operand only is in the result.
    - (contract_c4) element types agree; the result of 16-bit floats may be f32.
    ```mlir
    %y = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<6x8xf32>) -> tensor<2x4x6xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$lhs, PS_FloatTensor:$rhs, DenseI64ArrayAttr:$lhs_labels,
                       DenseI64ArrayAttr:$rhs_labels, DenseI64ArrayAttr:$result_labels);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $lhs $lhs_labels `,` $rhs $rhs_labels `->` $result_labels attr-dict `:`
    functional-type(operands, $result)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::llvm::ArrayRef<int64_t>":$lhsLabels,
    "::mlir::Value":$rhs, "::llvm::ArrayRef<int64_t>":$rhsLabels, "::llvm::ArrayRef<int64_t>":$resultLabels)>];
}
