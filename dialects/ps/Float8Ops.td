// Scaled 8-bit floats: x is held as q, x = q unit, with one unit, a power of two, for a whole tensor.
include "dialects/ps/Base.td"

def PS_Float8ScaleOp : PS_TensorOp<"float8_scale", [SameOperandsAndResultType, PS_Elementwise,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "the unit by which a tensor is held in 8 bits, from its largest number";
  let description = [{
    2^(margin - floor(log2(M / amax))), where M is the format's largest number: 448 of `e4m3` (4 bits of exponent, 3 of
    mantissa, no infinities), 57344 of `e5m2`. 1 where `amax` is 0 or not finite, and at least 2^-100, at most 2^100.
    Lifespan: made by `ps-precision` (level 2); stays to code generation.

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
  let summary = "the nearest 8-bit float of x / unit";
  let description = [{
    round(clamp(x / unit)): to the nearest, ties to even, also of subnormals; what is larger than the format's largest number
    becomes that, NaN stays. `unit` is a positive power of two, so that nothing but the one rounding happens.
    Lifespan: made by `ps-precision` (level 2), at each operand of a contraction in fp8; stays to code generation. What
    backward keeps of it are bytes.

    - (quantize_c1) the operand is of 32 bits or 16, `unit` is f32.
    ```mlir
    %q = ps.quantize %x, %unit : tensor<4x8xbf16>, tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$operand, PS_FloatTensor:$unit);
  let results = (outs PS_Float8Tensor:$result);
  let assemblyFormat = "$operand `,` $unit attr-dict `:` type($operand) `,` type($unit) `->` type($result)";
  let hasVerifier = 1;
}

def PS_DequantizeOp : PS_TensorOp<"dequantize", [PS_Elementwise, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "q unit";
  let description = [{
    What an 8-bit float stands for. As `unit` is a power of two, it is exact in every type with 3 bits of mantissa and the
    exponents, such as bf16: a matmul of two of them is that of the 8-bit numbers, scaled.
    Lifespan: made by `ps-precision` (level 2) in front of each contraction in fp8; `ps-fuse{float8=true}` gives matmuls the
    8-bit numbers instead.

    - (dequantize_c1) the result is of 32 bits or 16, `unit` is f32.
    ```mlir
    %x = ps.dequantize %q, %unit : tensor<4x8xf8E5M2>, tensor<4x8xf32> -> tensor<4x8xbf16>
    ```
  }];
  let arguments = (ins PS_Float8Tensor:$operand, PS_FloatTensor:$unit);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "$operand `,` $unit attr-dict `:` type($operand) `,` type($unit) `->` type($result)";
  let hasVerifier = 1;
}
