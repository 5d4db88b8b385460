// Defines the lookup of table rows by index, and its gradient.
include "dialects/ps/Base.td"

def PS_EmbeddingOp : PS_TensorOp<"embedding", [PS_Library, PS_DifferentiableIn, PS_Partition, PS_Cost]> {
  let summary = "looks up table rows: result[..., :] = table[indices[...], :]";
  let description = [{
    An index outside the table gives zeros, because a rank may hold only a shard of the table. The
    runtime checks indices against the whole table when it reads data. The row `padding_index` gets
    no gradient.

    Lifespan: created by the importers (level 0); used by code generation.

    - (embedding_c1) the table has two dims; the result's shape is the indices' shape followed by
      the table's last dim.
    ```mlir
    %y = ps.embedding %w, %i : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$table, PS_IntTensor:$indices, OptionalAttr<I64Attr>:$padding_index);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $table `,` $indices (`padding` $padding_index^)? attr-dict `:` type($table) `,` type($indices) `->` type($result)
  }];
  let hasVerifier = 1;
}

def PS_EmbeddingGradOp : PS_TensorOp<"embedding_grad", [PS_Library, PS_Partition, PS_Cost, PS_Precision<"Fp32">]> {
  let summary = "adds each row of the cotangent to the result row that its index selects, in the order of the cotangent's rows";
  let description = [{
    Lifespan: created by `ps-autodiff` (level 1); used by code generation.
    ```mlir
    %g = ps.embedding_grad %d, %i : tensor<2x4x8xf32>, tensor<2x4xi64> -> tensor<16x8xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$cotangent, PS_IntTensor:$indices, OptionalAttr<I64Attr>:$padding_index);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $cotangent `,` $indices (`padding` $padding_index^)? attr-dict `:` type($cotangent) `,` type($indices) `->` type($result)
  }];
}
