// RUN: ps-opt %s -ps-canonicalize | FileCheck %s

// A rewrite copies the marks of the op that it replaces to the new op.
// CHECK-LABEL: func.func @marks_stay
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
func.func @marks_stay(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = ps.transpose %x [1, 0] {ps.phase = #ps.phase<forward>, ps.segment = 3 : i64} : tensor<2x3xf32> -> tensor<3x2xf32>
  %1 = ps.broadcast %0 dims [0, 1] : tensor<3x2xf32> -> tensor<3x2xf32>
  // CHECK-NEXT: return %[[X]]
  %2 = ps.transpose %1 [1, 0] : tensor<3x2xf32> -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @merged
func.func @merged(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = ps.transpose %x [1, 0, 2] {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64} : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  // CHECK-NEXT: ps.transpose %{{.*}} [2, 0, 1] {ps.phase = #ps.phase<forward>, ps.segment = 3 : i64, ps.shardings = [#ps.sharding<@mesh, [{"tp"}, {}, {}]>]}
  %1 = ps.transpose %0 [2, 1, 0] {ps.phase = #ps.phase<forward>, ps.segment = 3 : i64, ps.shardings = [#ps.sharding<@mesh, [{"tp"}, {}, {}]>]} : tensor<3x2x4xf32> -> tensor<4x2x3xf32>
  return %1 : tensor<4x2x3xf32>
}

// Twin: an op that no rewrite matches keeps its marks.
// CHECK-LABEL: func.func @untouched
func.func @untouched(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // CHECK-NEXT: ps.transpose %{{.*}} [1, 0] {ps.segment = 3 : i64}
  %0 = ps.transpose %x [1, 0] {ps.segment = 3 : i64} : tensor<2x3xf32> -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
