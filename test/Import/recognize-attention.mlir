// RUN: ps-opt %s -ps-recognize-attention -canonicalize | FileCheck %s

// The attention op takes the scale, the additive mask and the dropout.
// CHECK-LABEL: func.func @written_out
// CHECK-NOT: ps.softmax
// CHECK: ps.attention %arg0, %arg1, %arg2 mask %{{.*}} scale 5.000000e-01 {dropout = 1.000000e-01 : f64, ps.key = 7 : i64}
// CHECK-NOT: ps.softmax
func.func @written_out(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>,
                       %m: tensor<8x8xf32>) -> tensor<2x4x8x16xf32> {
  %kt = ps.transpose %k [0, 1, 3, 2] : tensor<2x4x8x16xf32> -> tensor<2x4x16x8xf32>
  %s = ps.contract %q [0, 1, 2, 4], %kt [0, 1, 4, 3] -> [0, 1, 2, 3] : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %c = ps.constant dense<0.5> : tensor<2x4x8x8xf32>
  %t = ps.mul %s, %c : tensor<2x4x8x8xf32>
  %b = ps.broadcast %m dims [2, 3] : tensor<8x8xf32> -> tensor<2x4x8x8xf32>
  %u = ps.add %t, %b : tensor<2x4x8x8xf32>
  %p = ps.softmax %u : tensor<2x4x8x8xf32>
  %d = ps.dropout %p p 0.1 {ps.key = 7 : i64} : tensor<2x4x8x8xf32>
  %o = ps.contract %d [0, 1, 2, 3], %v [0, 1, 3, 4] -> [0, 1, 2, 4] : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// A select between scores and -inf is a bool mask.
// CHECK-LABEL: func.func @selected
// CHECK: ps.attention %arg0, %arg1, %arg2 mask %{{.*}} scale 1.000000e+00 : ({{.*}}tensor<1x1x8x8xi1>)
func.func @selected(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>,
                    %m: tensor<8x8xi1>) -> tensor<2x4x8x16xf32> {
  %s = ps.contract %q [0, 1, 2, 4], %k [0, 1, 3, 4] -> [0, 1, 2, 3] : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x8xf32>
  %inf = ps.constant dense<0xFF800000> : tensor<2x4x8x8xf32>
  %b = ps.broadcast %m dims [2, 3] : tensor<8x8xi1> -> tensor<2x4x8x8xi1>
  %u = ps.select %b, %s, %inf : tensor<2x4x8x8xi1>, tensor<2x4x8x8xf32>
  %p = ps.softmax %u : tensor<2x4x8x8xf32>
  %o = ps.contract %p [0, 1, 2, 3], %v [0, 1, 3, 4] -> [0, 1, 2, 4] : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// Twin: the probabilities are also a result.
// CHECK-LABEL: func.func @probabilities_are_read
// CHECK: ps.softmax
// CHECK-NOT: ps.attention
func.func @probabilities_are_read(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>)
    -> (tensor<2x4x8x16xf32>, tensor<2x4x8x8xf32>) {
  %s = ps.contract %q [0, 1, 2, 4], %k [0, 1, 3, 4] -> [0, 1, 2, 3] : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x8xf32>
  %p = ps.softmax %s : tensor<2x4x8x8xf32>
  %o = ps.contract %p [0, 1, 2, 3], %v [0, 1, 3, 4] -> [0, 1, 2, 4] : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o, %p : tensor<2x4x8x16xf32>, tensor<2x4x8x8xf32>
}

// ps.attention returns 0 for a query without visible keys, so the NaN guard of exports is removed.
// CHECK-LABEL: func.func @nan_guard
// CHECK-NOT: ps.softmax
// CHECK: ps.attention
// CHECK-NOT: ps.select
func.func @nan_guard(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %s = ps.contract %q [0, 1, 2, 4], %k [0, 1, 3, 4] -> [0, 1, 2, 3] : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x8xf32>
  %p = ps.softmax %s : tensor<2x4x8x8xf32>
  %zero = ps.constant dense<0.0> : tensor<2x4x8x8xf32>
  %nan = ps.compare ne %p, %p : tensor<2x4x8x8xf32> -> tensor<2x4x8x8xi1>
  %g = ps.select %nan, %zero, %p : tensor<2x4x8x8xi1>, tensor<2x4x8x8xf32>
  %o = ps.contract %g [0, 1, 2, 3], %v [0, 1, 3, 4] -> [0, 1, 2, 4] : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// Twin: the guard replaces NaN by a value other than 0.
// CHECK-LABEL: func.func @other_guard
// CHECK: ps.softmax
// CHECK-NOT: ps.attention
func.func @other_guard(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %s = ps.contract %q [0, 1, 2, 4], %k [0, 1, 3, 4] -> [0, 1, 2, 3] : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x8xf32>
  %p = ps.softmax %s : tensor<2x4x8x8xf32>
  %half = ps.constant dense<0.5> : tensor<2x4x8x8xf32>
  %nan = ps.compare ne %p, %p : tensor<2x4x8x8xf32> -> tensor<2x4x8x8xi1>
  %g = ps.select %nan, %half, %p : tensor<2x4x8x8xi1>, tensor<2x4x8x8xf32>
  %o = ps.contract %g [0, 1, 2, 3], %v [0, 1, 3, 4] -> [0, 1, 2, 4] : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}
