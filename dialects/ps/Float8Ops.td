// Defines scaled 8-bit floats. A tensor x is stored as an 8-bit tensor q with x = q * scale. One
// scale, a power of two, applies to the whole tensor.
include "dialects/ps/Base.td"

def PS_Float8ScaleOp : PS_TensorOp<"float8_scale", [SameOperandsAndResultType, PS_Elementwise,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "computes the scale of an 8-bit tensor from its amax";
  let description = [{
    The result is 2^(margin - floor(log2(M / amax))), where M is the largest number of the format:
    448 for `e4m3` (4 exponent bits, 3 mantissa bits, no infinities), 57344 for `e5m2`. Example:
    amax = 100 in `e4m3` with margin 0 gives 2^-2. The result is 1 if `amax` is 0 or not finite.
    Other results are clamped to the range from 2^-100 to 2^100.

    Lifespan: created by `ps-precision` (level 2); used by code generation.

    - (float8_scale_c1) `amax` is f32.
    ```mlir
    %u = ps.float8_scale e4m3 %amax margin 0 : tensor<f32>
    ```
  }];
  let arguments = (ins PS_Float8FormatAttr:$format, PS_FloatTensor:$amax, I64Attr:$margin);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "`` $format $amax `margin` $margin attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def PS_QuantizeOp : PS_TensorOp<"quantize", [PS_Elementwise, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "rounds x / scale to an 8-bit float";
  let description = [{
    Computes round(clamp(x / scale)), rounding to nearest with ties to even, including subnormals.
    Values beyond the range of the format become the largest number of the same sign; NaN stays NaN.
    `scale` is a positive power of two, so rounding happens only once.

    Lifespan: created by `ps-precision` (level 2) for each operand of an fp8 contraction; used by
    code generation. Forward saves only the 8-bit result for backward.

    - (quantize_c1) the operand's elements have 32 or 16 bits; `scale` is f32.
    ```mlir
    %q = ps.quantize %x, %scale : tensor<4x8xbf16>, tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$operand, PS_FloatTensor:$scale);
  let results = (outs PS_Float8Tensor:$result);
  let assemblyFormat = "$operand `,` $scale attr-dict `:` type($operand) `,` type($scale) `->` type($result)";
  let hasVerifier = 1;
}

def PS_DequantizeOp : PS_TensorOp<"dequantize", [PS_Elementwise, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "computes q * scale";
  let description = [{
    Returns the value that an 8-bit float represents. Since `scale` is a power of two, the result is
    exact in every type with at least 3 mantissa bits and enough exponent range, such as bf16. A
    matmul of two dequantized tensors therefore equals the scaled matmul of the 8-bit tensors.

    Lifespan: created by `ps-precision` (level 2) before each fp8 contraction.
    `ps-fuse{float8=true}` replaces the op by 8-bit matmul operands.

    - (dequantize_c1) the result's elements have 32 or 16 bits; `scale` is f32.
    ```mlir
    %x = ps.dequantize %q, %scale : tensor<4x8xf8E5M2>, tensor<4x8xf32> -> tensor<4x8xbf16>
    ```
  }];
  let arguments = (ins PS_Float8Tensor:$operand, PS_FloatTensor:$scale);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "$operand `,` $scale attr-dict `:` type($operand) `,` type($scale) `->` type($result)";
  let hasVerifier = 1;
}
