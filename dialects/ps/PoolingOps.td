// Defines max pooling, whose windows may overlap. The importers build average pooling from other
// ops: a reshape and a reduction, or a convolution.
include "dialects/ps/Base.td"

def PS_MaxPoolOp : PS_TensorOp<"max_pool", [PS_Library, PS_Differentiable]> {
  let summary = "y[n, c, p] = max over k in the window of x[n, c, p stride + k dilation - low]";
  let description = [{
    The shape is x [N, C, space...]. Elements outside x are ignored. The maximum of a window with a
    NaN is NaN. The type of y determines the number of windows.

    Lifespan: created by the importers (level 0); used by code generation.

    Constraints:
    - (max_pool_c1) x and y have the same rank (at least 3), batch size and number of channels.
      `window`, `strides`, `low` and `dilation` have one entry per space dim; window, strides and
      dilation are at least 1, low at least 0. Only the batch dim may be empty. Space dims and these
      numbers are at most 2^31 - 1.
    - (max_pool_c2) every window overlaps x: the window begins before the end of x and ends after the
      start of x.
    - (max_pool_c3) element types agree.
    ```mlir
    %y = ps.max_pool %x window [3, 3] by [2, 2] low [1, 1] dilation [1, 1] : tensor<2x4x8x8xf32> -> tensor<2x4x4x4xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$operand, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$dilation);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $operand `window` $window `by` $strides `low` $low `dilation` $dilation attr-dict `:`
    type($operand) `->` type($result)
  }];
  let hasVerifier = 1;
}

def PS_MaxPoolGradOp : PS_TensorOp<"max_pool_grad", [AllTypesMatch<["operand", "result"]>, PS_Library]> {
  let summary = "adds the cotangent of each window to the position of its maximum: the first of equal maxima, or the last NaN";
  let description = [{
    Lifespan: created by `ps-autodiff` (level 1); used by code generation.

    Has the constraints of `ps.max_pool`, with the cotangent as y.
    ```mlir
    %d = ps.max_pool_grad %g, %x window [3, 3] by [2, 2] low [1, 1] dilation [1, 1] : tensor<2x4x4x4xf32>, tensor<2x4x8x8xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$cotangent, PS_FloatTensor:$operand, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$dilation);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $cotangent `,` $operand `window` $window `by` $strides `low` $low `dilation` $dilation attr-dict `:`
    type($cotangent) `,` type($operand)
  }];
  let hasVerifier = 1;
}
