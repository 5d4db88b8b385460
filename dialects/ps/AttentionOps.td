// Defines scaled dot-product attention and its gradient.
include "dialects/ps/Base.td"

def PS_AttentionOp : PS_TensorOp<"attention", [AttrSizedOperandSegments, PS_Random, PS_StridedLibrary, PS_DifferentiableIn, PS_Partition, PS_Cost, PS_Precision<"Compute", 3, 1>]> {
  let summary = "computes softmax(scale q k^T + mask) v, and the log-sum-exp (lse) of the scores of each query";
  let description = [{
    The shapes are q [B, H, T, D], k [B, G, S, D], v [B, G, S, E] and result [B, H, T, E], where H
    is a multiple of G. Attention kernels need D = E, so the importers pad the smaller size. Query
    head h reads key and value head h / (H / G) (grouped-query attention). Example: with 8 query
    heads and 2 key heads, query heads 0 to 3 read key head 0.
    - `causal` lets query i see keys j <= i + S - T. `window` w also requires j > i + S - T - w.
    - `mask` [B or 1, H or 1, T or 1, S] is bool (true: visible) or float (added to the scores).
    - `padding` [B, S] is bool (true: a real key, false: padding).
    - A query that sees no key gives zeros, and an lse of -inf. `lse` [B, H, T] is f32 (f64 for
      f64).
    - If `training`, dropout zeroes each attention probability with probability p = `dropout`, and
      divides the others by `1 - p`. `offset`, `global_size`, `factor_sizes` and `factor_strides`
      have the same meaning as in `ps.dropout`, for the global tensor of probabilities [B, H, T, S].
    - If `transposed`, `result` has the dims [B, T, H, E]. The features of all heads at a position
      are then adjacent. Matmuls read this order without a `ps.transpose`.

    Lifespan: created by the importers (level 0); used by code generation.

    Constraints:
    - (attention_c1) query, key, value, result and lse have the shapes above.
    - (attention_c2) H is a multiple of G.
    - (attention_c3) mask and padding have the shapes above.
    ```mlir
    %o, %l = ps.attention %q, %k, %v causal scale 0.125 : (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
    ```
  }];
  let arguments = (ins PS_FloatTensor:$query, PS_FloatTensor:$key, PS_FloatTensor:$value,
    Optional<PS_Tensor>:$mask, Optional<PS_BoolTensor>:$padding,
    Optional<I64>:$random_key, Optional<I64>:$micro_batch, Optional<PS_ScalarI64>:$offset,
    UnitAttr:$causal, OptionalAttr<I64Attr>:$window, F64Attr:$scale,
    DefaultValuedAttr<F64Attr, "0.0">:$dropout, DefaultValuedAttr<BoolAttr, "true">:$training,
    OptionalAttr<I64Attr>:$global_size, OptionalAttr<DenseI64ArrayAttr>:$factor_sizes, OptionalAttr<DenseI64ArrayAttr>:$factor_strides,
    UnitAttr:$transposed);
  let results = (outs PS_FloatTensor:$result, PS_FloatTensor:$lse);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^)? (`padding` $padding^)?
    (`random` $random_key^ `,` $micro_batch)? (`offset` $offset^)?
    (`causal` $causal^)? (`window` $window^)? `scale` $scale (`transposed` $transposed^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$query, "::mlir::Value":$key, "::mlir::Value":$value,
    "::mlir::Value":$mask, "::mlir::Value":$padding, "bool":$causal, "double":$scale,
    CArg<"double", "0.0">:$dropout, CArg<"bool", "true">:$training)>];
}

def PS_AttentionGradOp : PS_TensorOp<"attention_grad", [AttrSizedOperandSegments, PS_Random, PS_StridedLibrary, PS_Partition, PS_Cost, PS_Precision<"Compute", 5, 3>]> {
  let summary = "computes the cotangents of attention's query, key and value";
  let description = [{
    If `transposed`, the three results have the dims [B, T, H, D], [B, S, G, D] and [B, S, G, E].
    Otherwise, the results have the shapes of `query`, `key` and `value`. In both cases, the
    operands have the shapes of `ps.attention` without `transposed`. Example: the operands
    `cotangent` and `result` are [B, H, T, E].

    Lifespan: created by `ps-autodiff` (level 1); used by code generation.
    ```mlir
    %dq, %dk, %dv = ps.attention_grad %g, %q, %k, %v, %o, %l causal scale 0.125 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>)
    ```
  }];
  let arguments = (ins PS_FloatTensor:$cotangent, PS_FloatTensor:$query, PS_FloatTensor:$key,
    PS_FloatTensor:$value, PS_FloatTensor:$result, PS_FloatTensor:$lse,
    Optional<PS_Tensor>:$mask, Optional<PS_BoolTensor>:$padding,
    Optional<I64>:$random_key, Optional<I64>:$micro_batch, Optional<PS_ScalarI64>:$offset,
    UnitAttr:$causal, OptionalAttr<I64Attr>:$window, F64Attr:$scale,
    DefaultValuedAttr<F64Attr, "0.0">:$dropout, DefaultValuedAttr<BoolAttr, "true">:$training,
    OptionalAttr<I64Attr>:$global_size, OptionalAttr<DenseI64ArrayAttr>:$factor_sizes, OptionalAttr<DenseI64ArrayAttr>:$factor_strides,
    UnitAttr:$transposed);
  let results = (outs PS_FloatTensor:$query_cotangent, PS_FloatTensor:$key_cotangent, PS_FloatTensor:$value_cotangent);
  let assemblyFormat = [{
    $cotangent `,` $query `,` $key `,` $value `,` $result `,` $lse (`mask` $mask^)? (`padding` $padding^)?
    (`random` $random_key^ `,` $micro_batch)? (`offset` $offset^)?
    (`causal` $causal^)? (`window` $window^)? `scale` $scale (`transposed` $transposed^)? attr-dict `:` functional-type(operands, results)
  }];
}
