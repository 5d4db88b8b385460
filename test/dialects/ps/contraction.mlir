// RUN: ps-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func @linear
func.func @linear(%x: tensor<2x4x8xf32>, %w: tensor<6x8xf32>) -> tensor<2x4x6xf32> {
  // CHECK: ps.contract %{{.*}} [0, 1, 2], %{{.*}} [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<6x8xf32>) -> tensor<2x4x6xf32>
  %y = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<6x8xf32>) -> tensor<2x4x6xf32>
  return %y : tensor<2x4x6xf32>
}

// -----

func.func @contract_c1_count(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{has 1 label for the 2 dims of its left operand (contract_c1)}}
  %y = ps.contract %x [0], %w [3, 0] -> [3] : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @contract_c1_twice(%x: tensor<8x8xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{has label 0 twice in its left operand (contract_c1)}}
  %y = ps.contract %x [0, 0], %w [3, 0] -> [3] : (tensor<8x8xf32>, tensor<6x8xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @contract_c2(%x: tensor<4x768xf32>, %w: tensor<6x512xf32>) {
  // expected-error @below {{contracted dim has size 768 on the left and 512 on the right (contract_c2)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x768xf32>, tensor<6x512xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @contract_c2_result(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{result dim of label 2 has size 5, operands have 6 (contract_c2)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @contract_c3_alone(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{label 0 is on the left only; sum that dim with ps.reduce (contract_c3)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [2] : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @contract_c3_nowhere(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{result label 9 is in no operand (contract_c3)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2, 9] : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6x1xf32>
  return
}

// -----

func.func @contract_c4(%x: tensor<4x8xf32>, %w: tensor<6x8xbf16>) {
  // expected-error @below {{element types are 'f32', 'bf16' and 'f32'; they must be equal (contract_c4)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<6x8xbf16>) -> tensor<4x6xf32>
  return
}

// -----

func.func @contract_c5_type(%x: tensor<4x8xbf16>, %w: tensor<6x8xbf16>, %b: tensor<6xf32>) {
  // expected-error @below {{has bias type 'tensor<6xf32>', must have the last dims of the result 'tensor<4x6xbf16>' (contract_c5)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] bias %b : (tensor<4x8xbf16>, tensor<6x8xbf16>, tensor<6xf32>) -> tensor<4x6xbf16>
  return
}

// -----

func.func @contract_c5_rows(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{has bias type 'tensor<4xf32>', must have the last dims of the result 'tensor<4x6xf32>' (contract_c5)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] bias %b : (tensor<4x8xf32>, tensor<6x8xf32>, tensor<4xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @contract_c5_part_of_columns(%x: tensor<4x8xf32>, %w: tensor<3x2x8xf32>, %b: tensor<2xf32>) {
  // expected-error @below {{has a bias along dims that are not exactly the result dims of one operand (contract_c5)}}
  %y = ps.contract %x [0, 1], %w [2, 3, 1] -> [0, 2, 3] bias %b : (tensor<4x8xf32>, tensor<3x2x8xf32>, tensor<2xf32>) -> tensor<4x3x2xf32>
  return
}

// -----

func.func @contract_c5_batch(%x: tensor<4x6x8xf32>, %w: tensor<6x8xf32>, %b: tensor<6xf32>) {
  // expected-error @below {{has a bias along dims that are not exactly the result dims of one operand (contract_c5)}}
  %y = ps.contract %x [0, 2, 1], %w [2, 1] -> [0, 2] bias %b : (tensor<4x6x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @contract_c6_operand(%g: tensor<4x6xf32>, %x: tensor<4x8xf32>) {
  // expected-error @below {{has sums of operand 2, must be 0 or 1 (contract_c6)}}
  %y, %s = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] sums of 2 : (tensor<4x6xf32>, tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<6xf32>)
  return
}

// -----

func.func @contract_c6_no_operand(%g: tensor<4x6xf32>, %x: tensor<4x8xf32>) {
  // expected-error @below {{has a second result but sums no operand (contract_c6)}}
  %y, %s = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] : (tensor<4x6xf32>, tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<6xf32>)
  return
}

// -----

func.func @contract_c6_no_result(%g: tensor<4x6xf32>, %x: tensor<4x8xf32>) {
  // expected-error @below {{sums an operand but has no second result (contract_c6)}}
  %y = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] sums of 0 : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

func.func @contract_c6_type(%g: tensor<4x6xf32>, %x: tensor<4x8xf32>) {
  // expected-error @below {{has sums 'tensor<6xf32>', must be 'tensor<8xf32>' (contract_c6)}}
  %y, %s = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] sums of 1 : (tensor<4x6xf32>, tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<6xf32>)
  return
}

// -----

func.func @contract_c6_batch(%g: tensor<2x4x6xf32>, %x: tensor<2x4x8xf32>) {
  // expected-error @below {{has sums and a batch label (contract_c6)}}
  %y, %s = ps.contract %g [3, 0, 1], %x [3, 0, 2] -> [3, 1, 2] sums of 0 : (tensor<2x4x6xf32>, tensor<2x4x8xf32>) -> (tensor<2x6x8xf32>, tensor<6xf32>)
  return
}

// -----

func.func @contract_c6_bias(%g: tensor<4x6xf32>, %x: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{has both a bias and sums (contract_c6)}}
  %y, %s = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] bias %b sums of 0 : (tensor<4x6xf32>, tensor<4x8xf32>, tensor<8xf32>) -> (tensor<6x8xf32>, tensor<6xf32>)
  return
}

// -----

func.func @contract_c7_no_scales(%x: tensor<4x8xf8E4M3FN>, %w: tensor<6x8xf8E4M3FN>) {
  // expected-error @below {{has 0 scales, must have 2 (contract_c7)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>) -> tensor<4x6xbf16>
  return
}

// -----

func.func @contract_c7_wide(%x: tensor<4x8xbf16>, %w: tensor<6x8xbf16>, %u: tensor<f32>) {
  // expected-error @below {{has 2 scales, must have 0 (contract_c7)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] scales %u, %u : (tensor<4x8xbf16>, tensor<6x8xbf16>, tensor<f32>, tensor<f32>) -> tensor<4x6xbf16>
  return
}

// -----

func.func @contract_c7_shape(%x: tensor<4x8xf8E4M3FN>, %w: tensor<6x8xf8E5M2>, %u: tensor<8xf32>) {
  // expected-error @below {{has a scale 'tensor<8xf32>', must be tensor<f32> (contract_c7)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] scales %u, %u : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E5M2>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x6xbf16>
  return
}

// -----

func.func @contract_c7_sums(%g: tensor<4x6xf8E5M2>, %x: tensor<4x8xf8E4M3FN>, %u: tensor<f32>) {
  // expected-error @below {{has both scales and sums (contract_c7)}}
  %y, %s = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] scales %u, %u sums of 0 : (tensor<4x6xf8E5M2>, tensor<4x8xf8E4M3FN>, tensor<f32>, tensor<f32>) -> (tensor<6x8xf32>, tensor<6xf32>)
  return
}

// -----

func.func @contract_c4_mixed(%x: tensor<4x8xf8E4M3FN>, %w: tensor<6x8xbf16>) {
  // expected-error @below {{element types are 'f8E4M3FN', 'bf16' and 'bf16'; they must be equal (contract_c4)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x8xf8E4M3FN>, tensor<6x8xbf16>) -> tensor<4x6xbf16>
  return
}

// -----

func.func @contract_c8_type(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{has a GELU or its derivative with type 'tensor<4x6xf32>', must be 'tensor<4x8xf32>' (contract_c8)}}
  %y, %h = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] gelu : (tensor<4x6xf32>, tensor<6x8xf32>) -> (tensor<4x8xf32>, tensor<4x6xf32>)
  return
}

// -----

func.func @contract_c8_derivative_type(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>, %h: tensor<4x6xf32>) {
  // expected-error @below {{has a GELU or its derivative with type 'tensor<4x6xf32>', must be 'tensor<4x8xf32>' (contract_c8)}}
  %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] gelu_grad at %h : (tensor<4x6xf32>, tensor<6x8xf32>, tensor<4x6xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @contract_c8_both(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>, %h: tensor<4x8xf32>) {
  // expected-error @below {{has a GELU and a GELU's derivative (contract_c8)}}
  %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] gelu_grad at %h gelu : (tensor<4x6xf32>, tensor<6x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @contract_c8_bias(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>, %b: tensor<8xf32>, %h: tensor<4x8xf32>) {
  // expected-error @below {{has a GELU's derivative and a bias (contract_c8)}}
  %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] bias %b gelu_grad at %h : (tensor<4x6xf32>, tensor<6x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @contract_c8_sums(%x: tensor<4x6xf32>, %w: tensor<6x8xf32>) {
  // expected-error @below {{has a GELU and sums (contract_c8)}}
  %y, %s = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] gelu sums of 0 : (tensor<4x6xf32>, tensor<6x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return
}

// -----

func.func @contract_c8_batch(%x: tensor<2x4x6xf32>, %w: tensor<2x6x8xf32>) {
  // expected-error @below {{has a GELU or its derivative and a batch label (contract_c8)}}
  %y = ps.contract %x [3, 0, 1], %w [3, 1, 2] -> [3, 0, 2] gelu : (tensor<2x4x6xf32>, tensor<2x6x8xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

func.func @contract_c8_scales(%x: tensor<4x8xf8E4M3FN>, %w: tensor<6x8xf8E4M3FN>, %u: tensor<f32>) {
  // expected-error @below {{has a GELU and scales (contract_c8)}}
  %y = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] scales %u, %u gelu : (tensor<4x8xf8E4M3FN>, tensor<6x8xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4x6xbf16>
  return
}
