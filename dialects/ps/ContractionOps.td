// Contractions: every matmul, linear layer and batched matmul is one op.
include "dialects/ps/Base.td"

def PS_FactorTensor : StaticShapeTensorOf<[PS_Float, PS_Float8]>;

def PS_ContractOp : PS_TensorOp<"contract", [PS_Matmul, PS_Differentiable, PS_Cost, AttrSizedOperandSegments, PS_Precision<"Compute">]> {
  let summary = "a matmul of two tensors summed over the labels that the result lacks";
  let description = [{
    Einsum with number labels: `lhs`, `rhs`, `result` give each dim a label. A label in both operands
    and the result is a batch label; in both operands only, contracted; in one operand and the result,
    free. Matmuls are summed in f32 (f64 for f64). A `bias`, which `ps-fuse` adds for devices whose matmuls take
    one, is added to the sums before they are rounded. `sums of i`, of `ps-fuse` as well: a second result has the sums of operand
    `i` over the contracted labels (a bias's gradient beside its weight's), also in f32 and rounded once. With `units`, of
    `ps-fuse` for devices that multiply 8-bit floats, the operands are such, and the sums are multiplied by both units.
    `gelu` and `gelu_grad at`, of `ps-fuse` where a user asks for it: the result is the GELU (by the tanh formula) of the sums, with their
    bias, before they are rounded, and a second result, where there is one, the sums themselves; or the sums times the GELU's derivative at `aux`.
    - (contract_c1) each list has one label a dim, no label twice in a list.
    - (contract_c2) dims with one label have one size ("contracted dim has size 768 on the left and 512 on the right").
    - (contract_c3) every result label is in an operand; a label of one operand only is in the result.
    - (contract_c4) element types agree; the result of 16-bit floats may be f32, of 8-bit floats (of which there are two kinds)
      it is bf16, f16 or f32.
    - (contract_c5) a bias has the result's element type and the sizes of its last dims; one operand has their labels, the other
      none of them, and the first no other free label of more than one place.
    - (contract_c6) sums are of an operand 0 or 1, have its free labels in the order of the result, and the result's element type;
      no label is a batch label, and there is no bias.
    - (contract_c7) units are there, one f32 number for each operand, where these are of 8-bit floats, and only there; then there
      are no sums.
    - (contract_c8) a GELU's second result, or where its derivative is taken, has the result's type; there is one of a GELU, its derivative,
      sums and units, a derivative goes with no bias, and no label is a batch label.
    ```mlir
    %y = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<6x8xf32>) -> tensor<2x4x6xf32>
    %z = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] bias %b : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
    %dw, %db = ps.contract %dz [0, 1, 2], %x [0, 1, 3] -> [2, 3] sums of 0 : (tensor<2x4x6xf32>, tensor<2x4x8xf32>) -> (tensor<6x8xf32>, tensor<6xf32>)
    %q = ps.contract %p [0, 1], %v [2, 1] -> [0, 2] units %up, %uv : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4x6xbf16>
    %a, %h = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] bias %b gelu : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> (tensor<2x4x6xf32>, tensor<2x4x6xf32>)
    %dh = ps.contract %dy [0, 1, 2], %u [2, 3] -> [0, 1, 3] gelu_grad at %h : (tensor<2x4x5xf32>, tensor<5x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
    ```
  }];
  let arguments = (ins PS_FactorTensor:$lhs, PS_FactorTensor:$rhs, Optional<PS_FloatTensor>:$bias,
                       Optional<PS_FloatTensor>:$lhs_scale, Optional<PS_FloatTensor>:$rhs_scale,
                       Optional<PS_FloatTensor>:$aux, DenseI64ArrayAttr:$lhs_labels,
                       DenseI64ArrayAttr:$rhs_labels, DenseI64ArrayAttr:$result_labels,
                       OptionalAttr<I64Attr>:$summed, UnitAttr:$gelu);
  let results = (outs PS_FloatTensor:$result, Optional<PS_FloatTensor>:$second);
  let assemblyFormat = [{
    $lhs $lhs_labels `,` $rhs $rhs_labels `->` $result_labels (`bias` $bias^)?
    (`units` $lhs_scale^ `,` $rhs_scale)? (`gelu_grad` `at` $aux^)? (`gelu` $gelu^)? (`sums` `of` $summed^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::llvm::ArrayRef<int64_t>":$lhsLabels,
    "::mlir::Value":$rhs, "::llvm::ArrayRef<int64_t>":$rhsLabels, "::llvm::ArrayRef<int64_t>":$resultLabels)>,
    // With the operands, a bias that may be null, and the labels of another contraction.
    OpBuilder<(ins "::parashard::ps::ContractOp":$like, "::mlir::Value":$bias)>];
  let extraClassDeclaration = [{
    /// Whether the last `dims` dims of the result are all that one of the operands gives it, dims of
    /// one place aside: a bias may have these.
    bool isBiasable(int64_t dims);
    /// Whether both operands are 8-bit floats, which have units.
    bool isOfFloat8();
    /// The second result as the sums of an operand, or as what the GELU is of; null where it is not that.
    ::mlir::Value getSums() { return getSummed() ? getSecond() : ::mlir::Value(); }
    ::mlir::Value getPreActivation() { return getGelu() ? getSecond() : ::mlir::Value(); }
    /// Whether the result is something else than the sums.
    bool hasActivation() { return getGelu() || getAux(); }
    /// Of the first result.
    ::mlir::RankedTensorType getType() { return ::llvm::cast<::mlir::RankedTensorType>(getResult().getType()); }
    /// The result's labels that operand `i`, and not the other, has.
    ::llvm::SmallVector<int64_t> getFreeLabels(unsigned i);
  }];
}
