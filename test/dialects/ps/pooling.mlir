// RUN: ps-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func @overlapping
func.func @overlapping(%x: tensor<2x4x8x8xf32>, %g: tensor<2x4x4x4xf32>) {
  // CHECK: ps.max_pool %{{.*}} window [3, 3] by [2, 2] low [1, 1] dilation [1, 1] : tensor<2x4x8x8xf32> -> tensor<2x4x4x4xf32>
  %y = ps.max_pool %x window [3, 3] by [2, 2] low [1, 1] dilation [1, 1] : tensor<2x4x8x8xf32> -> tensor<2x4x4x4xf32>
  // CHECK: ps.max_pool_grad %{{.*}}, %{{.*}} window [3, 3] by [2, 2] low [1, 1] dilation [1, 1] : tensor<2x4x4x4xf32>, tensor<2x4x8x8xf32>
  %d = ps.max_pool_grad %g, %x window [3, 3] by [2, 2] low [1, 1] dilation [1, 1] : tensor<2x4x4x4xf32>, tensor<2x4x8x8xf32>
  return
}

// -----

func.func @max_pool_c1(%x: tensor<2x4x8xf32>) {
  // expected-error @below {{expected equal batch sizes and channels (max_pool_c1)}}
  %y = ps.max_pool %x window [2] by [2] low [0] dilation [1] : tensor<2x4x8xf32> -> tensor<2x5x4xf32>
  return
}

// -----

func.func @max_pool_c1_window(%x: tensor<2x4x8xf32>) {
  // expected-error @below {{has window sizes [0], expected 1 numbers (one per space dim) from 1 to 2147483647 (max_pool_c1)}}
  %y = ps.max_pool %x window [0] by [2] low [0] dilation [1] : tensor<2x4x8xf32> -> tensor<2x4x4xf32>
  return
}

// -----

func.func @max_pool_c2_after(%x: tensor<2x4x8xf32>) {
  // expected-error @below {{has a window outside the 8 elements along space dim 0 (max_pool_c2)}}
  %y = ps.max_pool %x window [2] by [2] low [0] dilation [1] : tensor<2x4x8xf32> -> tensor<2x4x5xf32>
  return
}

// -----

func.func @max_pool_c2_before(%g: tensor<2x4x5xf32>, %x: tensor<2x4x8xf32>) {
  // expected-error @below {{has a window outside the 8 elements along space dim 0 (max_pool_c2)}}
  %d = ps.max_pool_grad %g, %x window [2] by [2] low [2] dilation [1] : tensor<2x4x5xf32>, tensor<2x4x8xf32>
  return
}

// -----

func.func @max_pool_c3(%x: tensor<2x4x8xf32>) {
  // expected-error @below {{element types are 'f32' and 'f64'; they must be equal (max_pool_c3)}}
  %y = ps.max_pool %x window [2] by [2] low [0] dilation [1] : tensor<2x4x8xf32> -> tensor<2x4x4xf64>
  return
}
