// RUN: ps-opt -ps-fuse=sums=true %s | FileCheck %s
// RUN: ps-opt -ps-fuse %s | FileCheck %s --check-prefix=WITHOUT

// WITHOUT-NOT: sums of
ps.mesh @mesh <"tp" = 2 : tensor>

// One matmul computes the gradients of a weight and its bias. A matmul overwrites its sums, so a
// kernel adds them to the accumulator.
// CHECK-LABEL: func.func @gradients
// CHECK: %[[W:.*]], %[[B:.*]] = ps.contract %arg0 [0, 1, 2], %arg1 [0, 1, 3] -> [2, 3] sums of 0 :
// CHECK-SAME: (tensor<4x16x12xf32>, tensor<4x16x8xf32>) -> (tensor<12x8xf32>, tensor<12xf32>)
// CHECK: %[[C:.*]] = ps.fused(%[[B]])
// CHECK-DAG: ps.accumulate %arg2, %[[W]]
// CHECK-DAG: ps.accumulate %arg3, %[[C]]
func.func @gradients(%g: tensor<4x16x12xf32>, %x: tensor<4x16x8xf32>, %dw: !ps.ref<tensor<12x8xf32>>, %db: !ps.ref<tensor<12xf32>>)
    attributes {ps.class = "c"} {
  %b = ps.reduce sum %g dims [0, 1] : tensor<4x16x12xf32> -> tensor<12xf32>
  ps.accumulate %db, %b : !ps.ref<tensor<12xf32>>
  %w = ps.contract %g [0, 1, 2], %x [0, 1, 3] -> [2, 3] : (tensor<4x16x12xf32>, tensor<4x16x8xf32>) -> tensor<12x8xf32>
  ps.accumulate %dw, %w : !ps.ref<tensor<12x8xf32>>
  return
}

// The sum widens 16-bit floats first, as a matmul does. The cotangent is the right operand here.
// CHECK-LABEL: func.func @sums_of_narrow_floats
// CHECK: ps.contract %{{.*}} [0, 1], %{{.*}} [0, 2] -> [1, 2] sums of 1 : (tensor<64x8xbf16>, tensor<64x12xbf16>) -> (tensor<8x12xf32>, tensor<12xf32>)
// CHECK-NOT: ps.reduce
func.func @sums_of_narrow_floats(%g: tensor<64x12xbf16>, %x: tensor<64x8xbf16>) -> (tensor<8x12xf32>, tensor<12xf32>) attributes {ps.class = "c"} {
  %w = ps.contract %x [0, 1], %g [0, 2] -> [1, 2] : (tensor<64x8xbf16>, tensor<64x12xbf16>) -> tensor<8x12xf32>
  %c = ps.convert %g : tensor<64x12xbf16> -> tensor<64x12xf32>
  %b = ps.reduce sum %c dims [0] : tensor<64x12xf32> -> tensor<12xf32>
  return %w, %b : tensor<8x12xf32>, tensor<12xf32>
}

// The matmul that computes the cotangent cannot sum it, so the weight matmul does.
// CHECK-LABEL: func.func @cotangent_from_a_matmul
// CHECK: %[[G:.*]] = ps.contract
// CHECK: ps.contract %[[G]] {{.*}} sums of 0
func.func @cotangent_from_a_matmul(%h: tensor<64x4xf32>, %v: tensor<4x12xf32>, %x: tensor<64x8xf32>) -> (tensor<12x8xf32>, tensor<12xf32>) attributes {ps.class = "c"} {
  %g = ps.contract %h [0, 1], %v [1, 2] -> [0, 2] : (tensor<64x4xf32>, tensor<4x12xf32>) -> tensor<64x12xf32>
  %b = ps.reduce sum %g dims [0] : tensor<64x12xf32> -> tensor<12xf32>
  %w = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] : (tensor<64x12xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
  return %w, %b : tensor<12x8xf32>, tensor<12xf32>
}

// Twins. A kernel that computes the cotangent also sums it.
// CHECK-LABEL: func.func @cotangent_from_a_kernel
// CHECK-NOT: sums of
func.func @cotangent_from_a_kernel(%h: tensor<64x12xf32>, %x: tensor<64x8xf32>) -> (tensor<12x8xf32>, tensor<12xf32>) attributes {ps.class = "c"} {
  %g = ps.exp %h : tensor<64x12xf32>
  %b = ps.reduce sum %g dims [0] : tensor<64x12xf32> -> tensor<12xf32>
  %w = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] : (tensor<64x12xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
  return %w, %b : tensor<12x8xf32>, tensor<12xf32>
}

// The matmul reads rounded values, whose sums differ.
// CHECK-LABEL: func.func @sums_before_rounding
// CHECK-NOT: sums of
func.func @sums_before_rounding(%g: tensor<64x12xf32>, %x: tensor<64x8xbf16>) -> (tensor<12x8xf32>, tensor<12xf32>) attributes {ps.class = "c"} {
  %b = ps.reduce sum %g dims [0] : tensor<64x12xf32> -> tensor<12xf32>
  %n = ps.convert %g : tensor<64x12xf32> -> tensor<64x12xbf16>
  %w = ps.contract %n [0, 1], %x [0, 2] -> [1, 2] : (tensor<64x12xbf16>, tensor<64x8xbf16>) -> tensor<12x8xf32>
  return %w, %b : tensor<12x8xf32>, tensor<12xf32>
}

// A sum over dims that the matmul does not contract, a maximum, and a batched matmul.
// CHECK-LABEL: func.func @unsupported_sums
// CHECK-NOT: sums of
func.func @unsupported_sums(%g: tensor<64x12xf32>, %x: tensor<64x8xf32>, %u: tensor<3x64x12xf32>, %v: tensor<3x64x8xf32>)
    -> (tensor<64xf32>, tensor<12xf32>, tensor<12x8xf32>, tensor<3x12xf32>, tensor<3x12x8xf32>) attributes {ps.class = "c"} {
  %a = ps.reduce sum %g dims [1] : tensor<64x12xf32> -> tensor<64xf32>
  %b = ps.reduce max %g dims [0] : tensor<64x12xf32> -> tensor<12xf32>
  %w = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] : (tensor<64x12xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
  %c = ps.reduce sum %u dims [1] : tensor<3x64x12xf32> -> tensor<3x12xf32>
  %y = ps.contract %u [3, 0, 1], %v [3, 0, 2] -> [3, 1, 2] : (tensor<3x64x12xf32>, tensor<3x64x8xf32>) -> tensor<3x12x8xf32>
  return %a, %b, %w, %c, %y : tensor<64xf32>, tensor<12xf32>, tensor<12x8xf32>, tensor<3x12xf32>, tensor<3x12x8xf32>
}

// A matmul whose result a collective sends may be split into chunks, and chunks cannot sum.
// CHECK-LABEL: func.func @matmul_that_is_sent
// CHECK-NOT: sums of
func.func @matmul_that_is_sent(%g: tensor<64x12xf32>, %x: tensor<64x8xf32>) -> (tensor<12x8xf32>, tensor<12xf32>) attributes {ps.class = "c"} {
  %b = ps.reduce sum %g dims [0] : tensor<64x12xf32> -> tensor<12xf32>
  %w = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] : (tensor<64x12xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
  %s = ps.all_reduce sum %w over ["tp"] : tensor<12x8xf32>
  return %s, %b : tensor<12x8xf32>, tensor<12xf32>
}

// The matmul reads a value computed from the sums, so the two cannot be one op.
// CHECK-LABEL: func.func @matmul_that_needs_the_sums
// CHECK-NOT: sums of
func.func @matmul_that_needs_the_sums(%g: tensor<8x12xf32>) -> tensor<12x12xf32> attributes {ps.class = "c"} {
  %b = ps.reduce sum %g dims [0] : tensor<8x12xf32> -> tensor<12xf32>
  %s = ps.broadcast %b dims [1] : tensor<12xf32> -> tensor<8x12xf32>
  %e = ps.exp %s : tensor<8x12xf32>
  %w = ps.contract %g [0, 1], %e [0, 2] -> [1, 2] : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<12x12xf32>
  return %w : tensor<12x12xf32>
}
