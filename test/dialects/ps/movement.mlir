// RUN: ps-opt %s -split-input-file -verify-diagnostics | ps-opt -split-input-file | FileCheck %s

// CHECK-LABEL: func @movement
func.func @movement(%a: tensor<2x6xf32>, %b: tensor<6xf32>, %c: tensor<1x6xf32>) {
  // CHECK: ps.reshape %{{.*}} : tensor<2x6xf32> -> tensor<2x2x3xf32>
  %0 = ps.reshape %a : tensor<2x6xf32> -> tensor<2x2x3xf32>
  // CHECK: ps.transpose %{{.*}} [1, 0] : tensor<2x6xf32> -> tensor<6x2xf32>
  %1 = ps.transpose %a [1, 0] : tensor<2x6xf32> -> tensor<6x2xf32>
  // CHECK: ps.broadcast %{{.*}} dims [1] : tensor<6xf32> -> tensor<2x6xf32>
  %2 = ps.broadcast %b dims [1] : tensor<6xf32> -> tensor<2x6xf32>
  // CHECK: ps.slice %{{.*}} [0, 1] to [2, 6] by [1, 2] : tensor<2x6xf32> -> tensor<2x3xf32>
  %3 = ps.slice %a [0, 1] to [2, 6] by [1, 2] : tensor<2x6xf32> -> tensor<2x3xf32>
  // CHECK: ps.pad %{{.*}} low [0, 1] high [1, 0] by [1, 2] : tensor<2x6xf32> -> tensor<3x12xf32>
  %4 = ps.pad %a low [0, 1] high [1, 0] by [1, 2] : tensor<2x6xf32> -> tensor<3x12xf32>
  // CHECK: ps.concat %{{.*}}, %{{.*}} dim 0 : (tensor<2x6xf32>, tensor<1x6xf32>) -> tensor<3x6xf32>
  %5 = ps.concat %a, %c dim 0 : (tensor<2x6xf32>, tensor<1x6xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @reshape_c1(%a: tensor<2x6xf32>) {
  // expected-error @below {{operand 'tensor<2x6xf32>' has 12 elements, result 'tensor<13xf32>' has 13 (reshape_c1)}}
  %0 = ps.reshape %a : tensor<2x6xf32> -> tensor<13xf32>
  return
}

// -----

func.func @transpose_c1(%a: tensor<2x6xf32>) {
  // expected-error @below {{[1, 1] is not a permutation of the dims of 'tensor<2x6xf32>' (transpose_c1)}}
  %0 = ps.transpose %a [1, 1] : tensor<2x6xf32> -> tensor<6x6xf32>
  return
}

// -----

func.func @transpose_c2(%a: tensor<2x6xf32>) {
  // expected-error @below {{has a result of type 'tensor<2x6xf32>', expected 'tensor<6x2xf32>' (transpose_c2)}}
  %0 = ps.transpose %a [1, 0] : tensor<2x6xf32> -> tensor<2x6xf32>
  return
}

// -----

func.func @broadcast_c1(%a: tensor<2x6xf32>) {
  // expected-error @below {{dims [1, 0] are not increasing dims of 'tensor<6x2xf32>', one for each dim of 'tensor<2x6xf32>' (broadcast_c1)}}
  %0 = ps.broadcast %a dims [1, 0] : tensor<2x6xf32> -> tensor<6x2xf32>
  return
}

// -----

func.func @broadcast_c2(%a: tensor<1xf32>) {
  // expected-error @below {{operand dim 0 has size 1, result dim 1 has 2 (broadcast_c2)}}
  %0 = ps.broadcast %a dims [1] : tensor<1xf32> -> tensor<6x2xf32>
  return
}

// -----

func.func @slice_c1(%a: tensor<6xf32>) {
  // expected-error @below {{slices [2, 7) with stride 1 from dim 0 of size 6; expected 0 <= start <= limit <= size and stride >= 1 (slice_c1)}}
  %0 = ps.slice %a [2] to [7] by [1] : tensor<6xf32> -> tensor<5xf32>
  return
}

// -----

func.func @slice_c1_rank(%a: tensor<6xf32>) {
  // expected-error @below {{needs one start, limit and stride for each of 1 dim (slice_c1)}}
  %0 = ps.slice %a [] to [6] by [1] : tensor<6xf32> -> tensor<6xf32>
  return
}

// -----

func.func @slice_c2(%a: tensor<6xf32>) {
  // expected-error @below {{has a result of type 'tensor<2xf32>', expected 'tensor<3xf32>' (slice_c2)}}
  %0 = ps.slice %a [0] to [5] by [2] : tensor<6xf32> -> tensor<2xf32>
  return
}

// -----

func.func @pad_c1(%a: tensor<6xf32>) {
  // expected-error @below {{pads dim 0 by -1 and 0 with stride 1; expected low, high >= 0 and stride >= 1 (pad_c1)}}
  %0 = ps.pad %a low [-1] high [0] by [1] : tensor<6xf32> -> tensor<5xf32>
  return
}

// -----

func.func @pad_c2(%a: tensor<6xf32>) {
  // expected-error @below {{has a result of type 'tensor<7xf32>', expected 'tensor<12xf32>' (pad_c2)}}
  %0 = ps.pad %a low [1] high [0] by [2] : tensor<6xf32> -> tensor<7xf32>
  return
}

// -----

func.func @concat_c1(%a: tensor<2x6xf32>, %b: tensor<2x5xf32>) {
  // expected-error @below {{cannot concatenate 'tensor<2x5xf32>' into 'tensor<4x6xf32>' along dim 0 (concat_c1)}}
  %0 = ps.concat %a, %b dim 0 : (tensor<2x6xf32>, tensor<2x5xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @concat_c1_sum(%a: tensor<2x6xf32>) {
  // expected-error @below {{sizes of the operands along dim 0 add up to 4, but the result is 'tensor<5x6xf32>' (concat_c1)}}
  %0 = ps.concat %a, %a dim 0 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<5x6xf32>
  return
}
