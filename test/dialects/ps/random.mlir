// RUN: ps-opt %s | ps-opt | FileCheck %s
// RUN: ps-opt %s -canonicalize | FileCheck %s --check-prefix=FOLD

// CHECK-LABEL: func @trained
// FOLD-LABEL: func @trained
func.func @trained(%x: tensor<4x8xf32>, %key: i64, %mb: i64, %o: tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: ps.dropout %{{.*}} p 1.000000e-01 {ps.key = 3 : i64} : tensor<4x8xf32>
  // FOLD: ps.dropout
  %y = ps.dropout %x p 0.1 {ps.key = 3 : i64} : tensor<4x8xf32>
  // CHECK: ps.dropout %{{.*}} random %{{.*}}, %{{.*}} offset %{{.*}} : tensor<i64> p 1.000000e-01
  // FOLD: ps.dropout
  %z = ps.dropout %x random %key, %mb offset %o : tensor<i64> p 0.1 {factor_sizes = array<i64: 4, 8>, factor_strides = array<i64: 16, 1>, global_size = 64 : i64} : tensor<4x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// Outside training, dropout is the identity.
// FOLD-LABEL: func @evaluated
// FOLD-SAME: %[[X:.*]]: tensor<4x8xf32>
// FOLD-NEXT: return %[[X]]
func.func @evaluated(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = ps.dropout %x p 0.1 {training = false, ps.key = 3 : i64} : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
