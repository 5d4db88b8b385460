// Defines convolutions with operand x, kernel w and result y. The convolution and its two gradients
// sum over the same triples of indices; each op computes one of x, w and y from the other two.
include "dialects/ps/Base.td"

def PS_ConvolutionOp : PS_TensorOp<"convolution", [PS_Library, PS_Differentiable, PS_Cost, PS_Precision<"Compute">]> {
  let summary = "y[n, o, p] = sum over c, k of x[n, c, p stride + k dilation - low] w[o, c, k]";
  let description = [{
    The shapes are x [N, C, space...], w [O, C / groups, kernel...] and y [N, O, space...]. Elements
    of x outside its shape are 0. Channel group g of y reads channel group g of x; the types
    determine the number of groups. The type of y determines the number of windows: elements of x
    after the last window are not read. Sums are accumulated in f32 (f64 for f64). A bias is a
    separate `ps.add`.

    Lifespan: created by the importers (level 0) and by `ps-autodiff` (level 1); used by code
    generation.

    Constraints:
    - (convolution_c1) x, w and y have the same rank, at least 3. `strides`, `low` and `dilation`
      have one entry per space dim; strides and dilation are at least 1, low at least 0. Only the
      first dim may be empty. Space dims and these numbers are at most 2^31 - 1.
    - (convolution_c2) x and y have the same batch size. w has as many output channels as y. The
      channels of x are a multiple of w's input channels; the quotient is the number of groups. The
      channels of y are a multiple of the number of groups.
    - (convolution_c3) along each space dim, the last window begins before element n + `low` of x,
      where n is the size of x.
    - (convolution_c4) element types agree; the result of 16-bit floats may be f32.
    ```mlir
    %y = ps.convolution %x, %w by [2, 2] low [1, 1] dilation [1, 1] : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$operand, PS_FloatTensor:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$dilation);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $operand `,` $kernel `by` $strides `low` $low `dilation` $dilation attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
}

def PS_ConvolutionInputOp : PS_TensorOp<"convolution_input", [PS_Library, PS_Differentiable, PS_Cost, PS_Precision<"Compute">]> {
  let summary = "x[n, c, i] = sum over o, k and p of y[n, o, p] w[o, c, k], where p stride + k dilation - low = i";
  let description = [{
    Computes the cotangent of a `ps.convolution`'s operand from the cotangent of its result. The
    importers also create the op for transposed convolutions. Has the constraints of
    `ps.convolution`, with the result as x.

    Lifespan: created by the importers (level 0) and by `ps-autodiff` (level 1); used by code
    generation.
    ```mlir
    %x = ps.convolution_input %y, %w by [2, 2] low [1, 1] dilation [1, 1] : (tensor<2x6x4x4xf32>, tensor<6x4x3x3xf32>) -> tensor<2x4x8x8xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$cotangent, PS_FloatTensor:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$dilation);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $cotangent `,` $kernel `by` $strides `low` $low `dilation` $dilation attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
}

def PS_ConvolutionKernelOp : PS_TensorOp<"convolution_kernel", [PS_Library, PS_Differentiable, PS_Cost, PS_Precision<"Compute">]> {
  let summary = "w[o, c, k] = sum over n, p of x[n, c, p stride + k dilation - low] y[n, o, p]";
  let description = [{
    Computes the cotangent of a `ps.convolution`'s kernel. Has the constraints of `ps.convolution`,
    with the result as w.

    Lifespan: created by the importers (level 0) and by `ps-autodiff` (level 1); used by code
    generation.
    ```mlir
    %w = ps.convolution_kernel %x, %y by [2, 2] low [1, 1] dilation [1, 1] : (tensor<2x4x8x8xf32>, tensor<2x6x4x4xf32>) -> tensor<6x4x3x3xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$operand, PS_FloatTensor:$cotangent, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$dilation);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $operand `,` $cotangent `by` $strides `low` $low `dilation` $dilation attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
}
