// Convolutions: one relation between operand, kernel and result, and the op for each of the three.
include "dialects/ps/Base.td"

def PS_ConvolutionOp : PS_TensorOp<"convolution", [PS_Library, PS_Differentiable, PS_Cost, PS_Precision<"Compute">]> {
  let summary = "y[n, o, p] = sum over c, k of x[n, c, p stride + k dilation - low] w[o, c, k]";
  let description = [{
    x [N, C, space...], w [O, C / groups, kernel...], y [N, O, space...]; x is 0 outside of itself. Group g of the
    channels of y sees group g of those of x, and the number of groups follows from the types. How many places y
    has says its type: what stands behind the last window is not read, what lies beyond x is 0.
    Sums are taken in f32 (f64 for f64). Bias: a `ps.add`.
    - (convolution_c1) x, w and y have one rank, at least 3; `strides`, `low` and `dilation` have one entry a space
      dim; strides and dilation are at least 1, low at least 0; no dim is empty. Space dims
      and these numbers are at most 2^31 - 1.
    - (convolution_c2) x and y have one batch; w has the channels of y, and a divisor of those of x that makes
      groups which divide those of y.
    - (convolution_c3) the last window begins before the end of x with `low` zeros behind it.
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
  let summary = "x[n, c, i] = sum over o, k, p with i = p stride + k dilation - low of y[n, o, p] w[o, c, k]";
  let description = [{
    The cotangent of a `ps.convolution`'s operand from that of its result; a transposed convolution in a model.
    Constraints as of `ps.convolution`, with the result as x.
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
    The cotangent of a `ps.convolution`'s kernel. Constraints as of `ps.convolution`, with the result as w.
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
