// RUN: ps-opt -ps-fuse=biases=true %s | FileCheck %s
// RUN: ps-opt -ps-fuse %s | FileCheck %s --check-prefix=WITHOUT

ps.mesh @mesh <"tp" = 2 : tensor>

// WITHOUT-LABEL: func.func @saved_sum
// WITHOUT-NOT: bias %

// A bias of another type is converted once, not once per row.
// CHECK-LABEL: func.func @saved_sum
// CHECK-SAME: %[[X:.*]]: tensor<4x16x8xbf16>, %[[W:.*]]: tensor<12x8xbf16>, %[[B:.*]]: tensor<12xf32>
// CHECK: %[[N:.*]] = ps.fused(%[[B]])
// CHECK: ps.convert {{.*}} : tensor<12xf32> -> tensor<12xbf16>
// CHECK: %[[H:.*]] = ps.contract %[[X]] [0, 1, 2], %[[W]] [3, 2] -> [0, 1, 3] bias %[[N]]
// CHECK: %[[Y:.*]] = ps.fused(%[[H]])
// CHECK-NOT: ps.add
// CHECK: return %[[H]], %[[Y]]
func.func @saved_sum(%x: tensor<4x16x8xbf16>, %w: tensor<12x8xbf16>, %b: tensor<12xf32>)
    -> (tensor<4x16x12xbf16>, tensor<4x16x12xbf16>) attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<4x16x8xbf16>, tensor<12x8xbf16>) -> tensor<4x16x12xbf16>
  %s = ps.broadcast %b dims [2] : tensor<12xf32> -> tensor<4x16x12xf32>
  %c = ps.convert %s : tensor<4x16x12xf32> -> tensor<4x16x12xbf16>
  %h = ps.add %p, %c : tensor<4x16x12xbf16>
  %y = ps.gelu tanh %h : tensor<4x16x12xbf16>
  return %h, %y : tensor<4x16x12xbf16>, tensor<4x16x12xbf16>
}

// The bias may be the left operand of the add.
// CHECK-LABEL: func.func @read_by_a_matmul
// CHECK-SAME: %[[X:.*]]: tensor<6x8xf32>, %[[W:.*]]: tensor<8x12xf32>, %[[B:.*]]: tensor<12xf32>, %[[V:.*]]: tensor<3x4x5xf32>
// CHECK-NEXT: %[[H:.*]] = ps.contract %[[X]] [0, 1], %[[W]] [1, 2] -> [0, 2] bias %[[B]]
// CHECK-NEXT: %[[R:.*]] = ps.reshape %[[H]]
// CHECK-NEXT: ps.contract %[[R]]
func.func @read_by_a_matmul(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>, %b: tensor<12xf32>, %v: tensor<3x4x5xf32>)
    -> tensor<6x5xf32> attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %s = ps.broadcast %b dims [1] : tensor<12xf32> -> tensor<6x12xf32>
  %h = ps.add %s, %p : tensor<6x12xf32>
  %r = ps.reshape %h : tensor<6x12xf32> -> tensor<6x3x4xf32>
  %y = ps.contract %r [0, 1, 2], %v [1, 2, 3] -> [0, 3] : (tensor<6x3x4xf32>, tensor<3x4x5xf32>) -> tensor<6x5xf32>
  return %y : tensor<6x5xf32>
}

// A bias may have several dims: here all output dims of the weight, heads and features.
// CHECK-LABEL: func.func @bias_of_heads
// CHECK: ps.contract {{.*}} -> [0, 2, 3] bias %arg2
func.func @bias_of_heads(%x: tensor<6x8xf32>, %w: tensor<8x3x4xf32>, %b: tensor<3x4xf32>) -> tensor<6x3x4xf32> attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2, 3] -> [0, 2, 3] : (tensor<6x8xf32>, tensor<8x3x4xf32>) -> tensor<6x3x4xf32>
  %s = ps.broadcast %b dims [1, 2] : tensor<3x4xf32> -> tensor<6x3x4xf32>
  %h = ps.add %p, %s : tensor<6x3x4xf32>
  return %h : tensor<6x3x4xf32>
}

// A bias that is a strided view is copied into a contiguous tensor first.
// CHECK-LABEL: func.func @bias_that_is_a_strided_view
// CHECK: %[[N:.*]] = ps.fused(%arg2)
// CHECK: ps.slice
// CHECK: ps.contract {{.*}} bias %[[N]]
func.func @bias_that_is_a_strided_view(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>, %b: tensor<24xf32>) -> tensor<6x12xf32> attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %half = ps.slice %b [0] to [24] by [2] : tensor<24xf32> -> tensor<12xf32>
  %s = ps.broadcast %half dims [1] : tensor<12xf32> -> tensor<6x12xf32>
  %h = ps.add %p, %s : tensor<6x12xf32>
  return %h : tensor<6x12xf32>
}

// Twin: a bias of the features alone repeats for every head, so it is not one value per matmul
// column.
// CHECK-LABEL: func.func @bias_repeated_for_each_head
// CHECK-NOT: bias %
func.func @bias_repeated_for_each_head(%x: tensor<6x8xf32>, %w: tensor<8x3x4xf32>, %b: tensor<4xf32>) -> tensor<6x3x4xf32> attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2, 3] -> [0, 2, 3] : (tensor<6x8xf32>, tensor<8x3x4xf32>) -> tensor<6x3x4xf32>
  %s = ps.broadcast %b dims [2] : tensor<4xf32> -> tensor<6x3x4xf32>
  %h = ps.add %p, %s : tensor<6x3x4xf32>
  return %h : tensor<6x3x4xf32>
}

// The bias is fused even if only a kernel reads the sum.
// CHECK-LABEL: func.func @sum_within_a_kernel
// CHECK: ps.contract {{.*}} bias %arg2
// CHECK: ps.relu
func.func @sum_within_a_kernel(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>, %b: tensor<12xf32>) -> tensor<6x12xf32> attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %s = ps.broadcast %b dims [1] : tensor<12xf32> -> tensor<6x12xf32>
  %h = ps.add %p, %s : tensor<6x12xf32>
  %y = ps.relu %h : tensor<6x12xf32>
  return %y : tensor<6x12xf32>
}

// Twin: the matmul without its bias is also a result.
// CHECK-LABEL: func.func @matmul_with_two_users
// CHECK-NOT: bias %
func.func @matmul_with_two_users(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>, %b: tensor<12xf32>)
    -> (tensor<6x12xf32>, tensor<6x12xf32>) attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %s = ps.broadcast %b dims [1] : tensor<12xf32> -> tensor<6x12xf32>
  %h = ps.add %p, %s : tensor<6x12xf32>
  return %h, %p : tensor<6x12xf32>, tensor<6x12xf32>
}

// Twin: a bias has one value per column, not one per row.
// CHECK-LABEL: func.func @one_value_per_row
// CHECK-NOT: bias %
func.func @one_value_per_row(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>, %b: tensor<6xf32>) -> tensor<6x12xf32> attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %s = ps.broadcast %b dims [0] : tensor<6xf32> -> tensor<6x12xf32>
  %h = ps.add %p, %s : tensor<6x12xf32>
  return %h : tensor<6x12xf32>
}

// Twin: with one column, the device may swap rows and columns of the matmul.
// CHECK-LABEL: func.func @one_column
// CHECK-NOT: bias %
func.func @one_column(%x: tensor<6x8xf32>, %w: tensor<8x1xf32>, %b: tensor<1xf32>) -> tensor<6x1xf32> attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x1xf32>) -> tensor<6x1xf32>
  %s = ps.broadcast %b dims [1] : tensor<1xf32> -> tensor<6x1xf32>
  %h = ps.add %p, %s : tensor<6x1xf32>
  return %h : tensor<6x1xf32>
}

// Twin: matmuls in f64, or with a result type other than the operands', cannot add a bias.
// CHECK-LABEL: func.func @other_types
// CHECK-NOT: bias %
func.func @other_types(%x: tensor<6x8xf64>, %w: tensor<8x12xf64>, %b: tensor<12xf64>, %u: tensor<6x8xbf16>, %v: tensor<8x12xbf16>, %c: tensor<12xf32>)
    -> (tensor<6x12xf64>, tensor<6x12xf32>) attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf64>, tensor<8x12xf64>) -> tensor<6x12xf64>
  %s = ps.broadcast %b dims [1] : tensor<12xf64> -> tensor<6x12xf64>
  %h = ps.add %p, %s : tensor<6x12xf64>
  %q = ps.contract %u [0, 1], %v [1, 2] -> [0, 2] : (tensor<6x8xbf16>, tensor<8x12xbf16>) -> tensor<6x12xf32>
  %t = ps.broadcast %c dims [1] : tensor<12xf32> -> tensor<6x12xf32>
  %g = ps.add %q, %t : tensor<6x12xf32>
  return %h, %g : tensor<6x12xf64>, tensor<6x12xf32>
}

// Twin: every rank would add the bias to its partial sum.
// CHECK-LABEL: func.func @bias_after_a_collective
// CHECK: ps.contract {{.*}} -> [0, 2] :
// CHECK-NEXT: ps.all_reduce
// CHECK: ps.add
func.func @bias_after_a_collective(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>, %b: tensor<12xf32>) -> tensor<6x12xf32> attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %q = ps.all_reduce sum %p over ["tp"] : tensor<6x12xf32>
  %s = ps.broadcast %b dims [1] : tensor<12xf32> -> tensor<6x12xf32>
  %h = ps.add %q, %s : tensor<6x12xf32>
  return %h : tensor<6x12xf32>
}

// A matmul keeps its bias when its dims are reordered.
// CHECK-LABEL: func.func @ordered_with_its_bias
// CHECK: ps.contract {{.*}} -> [0, 1, 2, 3] bias %arg2
// WITHOUT-LABEL: func.func @ordered_with_its_bias
// WITHOUT: ps.contract {{.*}} -> [0, 1, 2, 3] bias %arg2
func.func @ordered_with_its_bias(%x: tensor<6x5x4x8xf32>, %w: tensor<6x3x8xf32>, %b: tensor<3xf32>) -> tensor<5x6x4x3xf32> attributes {ps.class = "c"} {
  %h = ps.contract %x [0, 1, 2, 4], %w [0, 3, 4] -> [1, 0, 2, 3] bias %b : (tensor<6x5x4x8xf32>, tensor<6x3x8xf32>, tensor<3xf32>) -> tensor<5x6x4x3xf32>
  return %h : tensor<5x6x4x3xf32>
}
