// RUN: ps-opt %s -split-input-file -verify-diagnostics | ps-opt -split-input-file | FileCheck %s

// CHECK-LABEL: func @sort
func.func @sort(%x: tensor<2x4xf32>, %b: tensor<3xi1>, %g: tensor<2x4xf32>) {
  // CHECK: %{{.*}}, %[[I:.*]] = ps.sort %{{.*}} dim 1 : tensor<2x4xf32> -> tensor<2x4xi64>
  %v, %i = ps.sort %x dim 1 : tensor<2x4xf32> -> tensor<2x4xi64>
  // CHECK: ps.sort %{{.*}} dim 0 descending : tensor<3xi1> -> tensor<3xi64>
  %w, %j = ps.sort %b dim 0 descending : tensor<3xi1> -> tensor<3xi64>
  // CHECK: ps.sort_grad %{{.*}}, %[[I]] dim 1 : tensor<2x4xf32>, tensor<2x4xi64>
  %d = ps.sort_grad %g, %i dim 1 : tensor<2x4xf32>, tensor<2x4xi64>
  return
}

// -----

func.func @sort_c1(%x: tensor<2x4xf32>) {
  // expected-error @below {{has no dim 2 in 'tensor<2x4xf32>' (sort_c1)}}
  %v, %i = ps.sort %x dim 2 : tensor<2x4xf32> -> tensor<2x4xi64>
  return
}

// -----

func.func @sort_c1_negative(%g: tensor<2x4xf32>, %i: tensor<2x4xi64>) {
  // expected-error @below {{has no dim -1 in 'tensor<2x4xf32>' (sort_c1)}}
  %d = ps.sort_grad %g, %i dim -1 : tensor<2x4xf32>, tensor<2x4xi64>
  return
}

// -----

func.func @sort_c2(%x: tensor<2x4xf32>) {
  // expected-error @below {{indices have type 'tensor<2x3xi64>', expected shape [2, 4] (sort_c2)}}
  %v, %i = ps.sort %x dim 1 : tensor<2x4xf32> -> tensor<2x3xi64>
  return
}
