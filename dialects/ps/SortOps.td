// Defines the sort along a dim, and its gradient.
include "dialects/ps/Base.td"

def PS_SortOp : PS_TensorOp<"sort", [AllTypesMatch<["operand", "values"]>, PS_Library, PS_Differentiable, PS_Cost]> {
  let summary = "sorts along a dim: values[i] = operand[indices[i]]";
  let description = [{
    The sort is stable: equal elements keep their order, and -0 equals 0. A NaN is larger than every
    number, as in PyTorch. `indices` are the positions of the sorted values along `dim` of the
    operand.

    Lifespan: created by the importers (level 0); used by code generation.

    Constraints:
    - (sort_c1) `dim` is a dim of the operand.
    - (sort_c2) the indices have the shape of the operand.
    ```mlir
    %v, %i = ps.sort %x dim 1 : tensor<2x4xf32> -> tensor<2x4xi64>
    %w, %j = ps.sort %x dim 0 descending : tensor<2x4xf32> -> tensor<2x4xi64>
    ```
  }];
  let arguments = (ins PS_NumberTensor:$operand, I64Attr:$dim, UnitAttr:$descending);
  let results = (outs PS_NumberTensor:$values, StaticShapeTensorOf<[I64]>:$indices);
  let assemblyFormat = [{
    $operand `dim` $dim (`descending` $descending^)? attr-dict `:` type($operand) `->` type($indices)
  }];
  let hasVerifier = 1;
}

def PS_SortGradOp : PS_TensorOp<"sort_grad", [AllTypesMatch<["cotangent", "result"]>, PS_Library]> {
  let summary = "moves the cotangents of sorted values back: result[indices[i]] = cotangent[i]";
  let description = [{
    `ps.sort` returns indices that contain each position along `dim` exactly once. With other
    indices, positions without an index are 0, and indices outside the dim are ignored. If an index
    occurs several times, the result has one of its cotangents.

    Lifespan: created by `ps-autodiff` (level 1); used by code generation.

    Has the constraints of `ps.sort`, with the cotangent as operand.
    ```mlir
    %d = ps.sort_grad %g, %i dim 1 : tensor<2x4xf32>, tensor<2x4xi64>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$cotangent, StaticShapeTensorOf<[I64]>:$indices, I64Attr:$dim);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $cotangent `,` $indices `dim` $dim attr-dict `:` type($cotangent) `,` type($indices)
  }];
  let hasVerifier = 1;
}
