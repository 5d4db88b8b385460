// Defines the contraction, the only op for matmuls, linear layers and batched matmuls.
include "dialects/ps/Base.td"

def PS_FactorTensor : StaticShapeTensorOf<[PS_Float, PS_Float8]>;

def PS_ContractOp : PS_TensorOp<"contract", [PS_Matmul, PS_Differentiable, PS_Cost, AttrSizedOperandSegments, PS_Precision<"Compute">]> {
  let summary = "contracts two tensors by dim labels, as einsum does";
  let description = [{
    Einsum with numbers as labels: `lhs`, `rhs` and `result` give each dim a label. A label in both
    operands and the result is a batch label. A label in both operands, but not in the result, is
    contracted. A label in one operand and the result is free. Sums are accumulated in f32 (f64 for
    f64).

    The following epilogues are added by `ps-fuse` for devices whose matmuls support them:
    - `bias`: the bias is added to the sums before rounding.
    - `sums of i`: the second result holds the sums of operand `i` over the contracted labels,
      accumulated in f32 and rounded once. With this epilogue, the matmul of a weight gradient also
      computes the bias gradient.
    - `scales`: the scales of 8-bit operands. The sums are multiplied by both scales.
    - `gelu`: the result is the tanh GELU of the sums (with bias) before rounding. An optional
      second result holds the sums themselves.
    - `gelu_grad at`: the result is the sums times the derivative of the tanh GELU at `aux`.

    The user enables the GELU epilogues with `--matmul-epilogues on`.

    Lifespan: created by the importers, and by passes up to level 3; used by code generation.

    Constraints:
    - (contract_c1) each list has one label per dim and no label twice.
    - (contract_c2) dims with the same label have the same size ("contracted dim has size 768 on the
      left and 512 on the right").
    - (contract_c3) every result label occurs in an operand; a label of only one operand occurs in
      the result.
    - (contract_c4) element types agree. The result of 16-bit operands may be f32. Operands of 8-bit
      floats may have either format; their result is bf16, f16 or f32.
    - (contract_c5) a bias has the element type of the result, and the sizes of the result's last
      dims. One operand has the labels of these dims, and no other free label of a size above 1. The
      other operand has none of these labels.
    - (contract_c6) `sums of` names operand 0 or 1. The sums have the free labels of this operand,
      in the order of the result, and the result's element type. Batch labels and a bias are not
      allowed.
    - (contract_c7) 8-bit operands have one scale each, an f32 scalar. Other operands have no
      scales. Scales cannot be combined with `sums of`.
    - (contract_c8) the second result of `gelu` and the `aux` of `gelu_grad` have the result's type.
      `gelu`, `gelu_grad`, `sums of` and scales exclude each other. `gelu_grad` excludes a bias.
      With `gelu` or `gelu_grad`, no label is a batch label.
    ```mlir
    %y = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<6x8xf32>) -> tensor<2x4x6xf32>
    %z = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] bias %b : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
    %dw, %db = ps.contract %dz [0, 1, 2], %x [0, 1, 3] -> [2, 3] sums of 0 : (tensor<2x4x6xf32>, tensor<2x4x8xf32>) -> (tensor<6x8xf32>, tensor<6xf32>)
    %q = ps.contract %p [0, 1], %v [2, 1] -> [0, 2] scales %up, %uv : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4x6xbf16>
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
    (`scales` $lhs_scale^ `,` $rhs_scale)? (`gelu_grad` `at` $aux^)? (`gelu` $gelu^)? (`sums` `of` $summed^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::llvm::ArrayRef<int64_t>":$lhsLabels,
    "::mlir::Value":$rhs, "::llvm::ArrayRef<int64_t>":$rhsLabels, "::llvm::ArrayRef<int64_t>":$resultLabels)>,
    // Copies operands and labels of `like`, and adds `bias`, which may be null.
    OpBuilder<(ins "::parashard::ps::ContractOp":$like, "::mlir::Value":$bias)>];
  let extraClassDeclaration = [{
    /// Returns whether a bias with the shape of the last `dims` dims of the result is possible. One
    /// operand must contribute exactly these dims; dims of size 1 are ignored.
    bool isBiasable(int64_t dims);
    /// Returns whether both operands are 8-bit floats, which have scales.
    bool isOfFloat8();
    /// Return the second result if it holds the sums of an operand (`getSums`) or the input of the
    /// GELU (`getPreActivation`), else null.
    ::mlir::Value getSums() { return getSummed() ? getSecond() : ::mlir::Value(); }
    ::mlir::Value getPreActivation() { return getGelu() ? getSecond() : ::mlir::Value(); }
    /// Returns whether the result is a GELU or its gradient, rather than the plain sums.
    bool hasActivation() { return getGelu() || getAux(); }
    /// Returns the type of the first result.
    ::mlir::RankedTensorType getType() { return ::llvm::cast<::mlir::RankedTensorType>(getResult().getType()); }
    /// Returns the result labels that operand `i` has and the other operand lacks.
    ::llvm::SmallVector<int64_t> getFreeLabels(unsigned i);
  }];
}
