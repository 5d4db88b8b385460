// RUN: ps-opt %s -ps-recognize-grouped-queries | FileCheck %s

// CHECK-LABEL: func.func @repeated
// CHECK-NEXT: ps.attention %arg0, %arg1, %arg2 causal
func.func @repeated(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>, %v: tensor<2x2x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %kb = ps.broadcast %k dims [0, 1, 3, 4] : tensor<2x2x8x16xf32> -> tensor<2x2x2x8x16xf32>
  %kr = ps.reshape %kb : tensor<2x2x2x8x16xf32> -> tensor<2x4x8x16xf32>
  %vb = ps.broadcast %v dims [0, 1, 3, 4] : tensor<2x2x8x16xf32> -> tensor<2x2x2x8x16xf32>
  %vr = ps.reshape %vb : tensor<2x2x2x8x16xf32> -> tensor<2x4x8x16xf32>
  %o, %l = ps.attention %q, %kr, %vr causal scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xf32>
}

// Twin: the sequence of heads is tiled, so head h reads h mod 2 and heads do not form groups.
// CHECK-LABEL: func.func @tiled
// CHECK: ps.broadcast
// CHECK: ps.attention %arg0, %{{.*}}, %{{.*}} causal
func.func @tiled(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>, %v: tensor<2x2x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %kb = ps.broadcast %k dims [0, 2, 3, 4] : tensor<2x2x8x16xf32> -> tensor<2x2x2x8x16xf32>
  %kr = ps.reshape %kb : tensor<2x2x2x8x16xf32> -> tensor<2x4x8x16xf32>
  %vb = ps.broadcast %v dims [0, 2, 3, 4] : tensor<2x2x8x16xf32> -> tensor<2x2x2x8x16xf32>
  %vr = ps.reshape %vb : tensor<2x2x2x8x16xf32> -> tensor<2x4x8x16xf32>
  %o, %l = ps.attention %q, %kr, %vr causal scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xf32>
}
