// RUN: ps-opt %s -split-input-file -verify-diagnostics | ps-opt -split-input-file | FileCheck %s

// CHECK-LABEL: func @rows
func.func @rows(%x: tensor<4x8xf32>, %h: tensor<4x8xbf16>) {
  // CHECK: %[[Y:.*]], %[[R:.*]] = ps.layer_norm %{{.*}} epsilon 1.000000e-05 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>
  %y, %r = ps.layer_norm %x epsilon 1.0e-5 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>
  // CHECK: ps.layer_norm_grad %{{.*}}, %[[Y]], %[[R]] : tensor<4x8xf32>, tensor<4xf32>
  %d = ps.layer_norm_grad %x, %y, %r : tensor<4x8xf32>, tensor<4xf32>
  // CHECK: ps.layer_norm %{{.*}} -> tensor<4x8xbf16>, tensor<4xf32>
  %z, %s = ps.layer_norm %h epsilon 1.0e-5 : tensor<4x8xbf16> -> tensor<4x8xbf16>, tensor<4xf32>
  // CHECK: ps.softmax %{{.*}} : tensor<4x8xf32>
  %p = ps.softmax %x : tensor<4x8xf32>
  // CHECK: ps.softmax_grad %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %g = ps.softmax_grad %x, %p : tensor<4x8xf32>
  // CHECK: ps.log_softmax %{{.*}} : tensor<4x8xf32>
  %l = ps.log_softmax %x : tensor<4x8xf32>
  return
}

// -----

func.func @layer_norm_c1(%x: tensor<f32>) {
  // expected-error @below {{normalizes along the last dim, but 'tensor<f32>' has no dims (layer_norm_c1)}}
  %y, %r = ps.layer_norm %x epsilon 1.0e-5 : tensor<f32> -> tensor<f32>, tensor<f32>
  return
}

// -----

func.func @layer_norm_c2(%x: tensor<4x8xbf16>) {
  // expected-error @below {{rstd has type 'tensor<4xbf16>', expected 'tensor<4xf32>' (layer_norm_c2)}}
  %y, %r = ps.layer_norm %x epsilon 1.0e-5 : tensor<4x8xbf16> -> tensor<4x8xbf16>, tensor<4xbf16>
  return
}
