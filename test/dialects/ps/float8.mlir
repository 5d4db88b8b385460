// Checks the constraints of 8-bit float ops, and that other ops reject 8-bit floats.
// RUN: ps-opt %s -split-input-file -verify-diagnostics

func.func @float8_scale_c1(%a: tensor<bf16>) {
  // expected-error @below {{has amax type 'bf16', expected f32 (float8_scale_c1)}}
  %u = ps.float8_scale e4m3 %a margin 0 : tensor<bf16>
  return
}

// -----

func.func @quantize_c1(%x: tensor<4xf64>, %u: tensor<4xf32>) {
  // expected-error @below {{has element type 'f64', expected a float of 32 or 16 bits (quantize_c1)}}
  %q = ps.quantize %x, %u : tensor<4xf64>, tensor<4xf32> -> tensor<4xf8E5M2>
  return
}

// -----

func.func @quantize_c1_scale(%x: tensor<4xbf16>, %u: tensor<4xbf16>) {
  // expected-error @below {{has scale type 'bf16', expected f32 (quantize_c1)}}
  %q = ps.quantize %x, %u : tensor<4xbf16>, tensor<4xbf16> -> tensor<4xf8E5M2>
  return
}

// -----

func.func @dequantize_c1(%q: tensor<4xf8E4M3FN>, %u: tensor<4xf32>) {
  // expected-error @below {{has element type 'f64', expected a float of 32 or 16 bits (dequantize_c1)}}
  %x = ps.dequantize %q, %u : tensor<4xf8E4M3FN>, tensor<4xf32> -> tensor<4xf64>
  return
}

// -----

func.func @sum_of_8_bit_floats(%q: tensor<4xf8E4M3FN>) {
  // expected-error @below {{operand #0 must be statically shaped tensor}}
  %x = ps.add %q, %q : tensor<4xf8E4M3FN>
  return
}
