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

// Twin: the list of heads is repeated as a whole, so query head h reads key head h mod 2. Query
// heads that read the same key head are then not adjacent, so they do not form groups.
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
