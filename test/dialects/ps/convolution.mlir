// RUN: ps-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func @strided
func.func @strided(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32> {
  // CHECK: ps.convolution %{{.*}}, %{{.*}} by [2, 2] low [1, 1] dilation [1, 1] : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  %y = ps.convolution %x, %w by [2, 2] low [1, 1] dilation [1, 1] : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  return %y : tensor<2x6x4x4xf32>
}

// Padding may exceed the kernel size, so that some windows read only zeros.
// CHECK-LABEL: func @window_of_zeros
func.func @window_of_zeros(%x: tensor<1x1x2xf32>, %w: tensor<1x1x1xf32>) -> tensor<1x1x4xf32> {
  // CHECK: ps.convolution
  %y = ps.convolution %x, %w by [1] low [1] dilation [1] : (tensor<1x1x2xf32>, tensor<1x1x1xf32>) -> tensor<1x1x4xf32>
  return %y : tensor<1x1x4xf32>
}

// -----

func.func @convolution_c1_rank(%x: tensor<2x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error @below {{has a tensor of type 'tensor<2x4xf32>', expected 3 dims: batch, channels and space (convolution_c1)}}
  %y = ps.convolution %x, %w by [] low [] dilation [] : (tensor<2x4xf32>, tensor<6x4xf32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @convolution_c1_empty(%x: tensor<2x4x0xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @below {{has an empty tensor of type 'tensor<2x4x0xf32>'; only the batch may be empty (convolution_c1)}}
  %y = ps.convolution %x, %w by [1] low [1] dilation [1] : (tensor<2x4x0xf32>, tensor<6x4x3xf32>) -> tensor<2x6x8xf32>
  return
}

// -----

func.func @convolution_c1_count(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @below {{has strides [2], expected 2 numbers (one per space dim) from 1 to 2147483647 (convolution_c1)}}
  %y = ps.convolution %x, %w by [2] low [1, 1] dilation [1, 1] : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  return
}

// -----

func.func @convolution_c1_least(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @below {{has low [1, -1], expected 2 numbers (one per space dim) from 0 to 2147483647 (convolution_c1)}}
  %y = ps.convolution %x, %w by [2, 2] low [1, -1] dilation [1, 1] : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
  return
}

// -----

func.func @convolution_c1_large(%x: tensor<2x4x4294967296xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @below {{has a tensor of type 'tensor<2x4x4294967296xf32>', expected space dims of at most 2147483647 (convolution_c1)}}
  %y = ps.convolution %x, %w by [1] low [1] dilation [1] : (tensor<2x4x4294967296xf32>, tensor<6x4x3xf32>) -> tensor<2x6x4294967296xf32>
  return
}

// -----

func.func @convolution_c1_largest(%x: tensor<2x4x8xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @below {{has dilation [9223372036854775807], expected 1 numbers (one per space dim) from 1 to 2147483647 (convolution_c1)}}
  %y = ps.convolution %x, %w by [1] low [1] dilation [9223372036854775807] : (tensor<2x4x8xf32>, tensor<6x4x3xf32>) -> tensor<2x6x8xf32>
  return
}

// -----

func.func @convolution_c2_batch(%x: tensor<2x4x8xf32>, %y: tensor<3x6x8xf32>) {
  // expected-error @below {{batch size of x is 2, but that of y is 3 (convolution_c2)}}
  %w = ps.convolution_kernel %x, %y by [1] low [1] dilation [1] : (tensor<2x4x8xf32>, tensor<3x6x8xf32>) -> tensor<6x4x3xf32>
  return
}

// -----

func.func @convolution_c2_groups(%x: tensor<2x4x8xf32>, %w: tensor<6x3x3xf32>) {
  // expected-error @below {{kernel 'tensor<6x3x3xf32>' does not fit 4 channels of x and 6 channels of y, with any number of groups (convolution_c2)}}
  %y = ps.convolution %x, %w by [1] low [1] dilation [1] : (tensor<2x4x8xf32>, tensor<6x3x3xf32>) -> tensor<2x6x8xf32>
  return
}

// -----

func.func @convolution_c2_channels(%y: tensor<2x5x8xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @below {{does not fit 4 channels of x and 5 channels of y, with any number of groups (convolution_c2)}}
  %x = ps.convolution_input %y, %w by [1] low [1] dilation [1] : (tensor<2x5x8xf32>, tensor<6x4x3xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

func.func @convolution_c3(%x: tensor<2x4x8xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @below {{last window along space dim 0 begins at element 9, past the size 8 + low 1 (convolution_c3)}}
  %y = ps.convolution %x, %w by [1] low [1] dilation [1] : (tensor<2x4x8xf32>, tensor<6x4x3xf32>) -> tensor<2x6x11xf32>
  return
}

// -----

func.func @convolution_c4(%x: tensor<2x4x8xf32>, %w: tensor<6x4x3xf64>) {
  // expected-error @below {{element types are 'f32', 'f64' and 'f32'; they must be equal (convolution_c4)}}
  %y = ps.convolution %x, %w by [1] low [1] dilation [1] : (tensor<2x4x8xf32>, tensor<6x4x3xf64>) -> tensor<2x6x8xf32>
  return
}
