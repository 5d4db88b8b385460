// RUN: ps-opt -ps-fuse="biases=true activations=true sums=true" %s | FileCheck %s
// RUN: ps-opt -ps-fuse="biases=true sums=true" %s | FileCheck %s --check-prefix=WITHOUT

// WITHOUT-NOT: ps.contract {{.*}} gelu
ps.mesh @mesh <"tp" = 2 : tensor>

// Backward reads the GELU input in another shape, so the matmul returns it as a second result.
// CHECK-LABEL: func.func @saved_gelu_input
// CHECK: %[[Y:.*]], %[[H:.*]] = ps.contract %arg0 [0, 1], %arg1 [1, 2] -> [0, 2] bias %arg2 gelu :
// CHECK-SAME: (tensor<64x8xbf16>, tensor<8x12xbf16>, tensor<12xbf16>) -> (tensor<64x12xbf16>, tensor<64x12xbf16>)
// CHECK-DAG: %[[A:.*]] = ps.reshape %[[H]]
// CHECK-DAG: %[[B:.*]] = ps.reshape %[[Y]]
// CHECK-NOT: ps.fused
// CHECK: return %[[A]], %[[B]]
func.func @saved_gelu_input(%x: tensor<64x8xbf16>, %w: tensor<8x12xbf16>, %b: tensor<12xbf16>)
    -> (tensor<4x16x12xbf16>, tensor<4x16x12xbf16>) attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<64x8xbf16>, tensor<8x12xbf16>) -> tensor<64x12xbf16>
  %s = ps.broadcast %b dims [1] : tensor<12xbf16> -> tensor<64x12xbf16>
  %h = ps.add %p, %s : tensor<64x12xbf16>
  %r = ps.reshape %h : tensor<64x12xbf16> -> tensor<4x16x12xbf16>
  %y = ps.gelu tanh %r : tensor<4x16x12xbf16>
  return %r, %y : tensor<4x16x12xbf16>, tensor<4x16x12xbf16>
}

// Nothing else reads the GELU input, so the matmul returns only the GELU.
// CHECK-LABEL: func.func @gelu_alone
// CHECK: %[[Y:.*]] = ps.contract %arg0 [0, 1], %arg1 [1, 2] -> [0, 2] gelu : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
// CHECK-NEXT: ps.contract %[[Y]]
func.func @gelu_alone(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>, %v: tensor<12x8xf32>) -> tensor<6x8xf32> attributes {ps.class = "c"} {
  %h = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %y = ps.gelu tanh %h : tensor<6x12xf32>
  %z = ps.contract %y [0, 1], %v [1, 2] -> [0, 2] : (tensor<6x12xf32>, tensor<12x8xf32>) -> tensor<6x8xf32>
  return %z : tensor<6x8xf32>
}

// Backward: the epilogue multiplies the cotangent by the GELU derivative at the saved GELU input.
// CHECK-LABEL: func.func @derivative
// CHECK: %[[R:.*]] = ps.reshape %arg2
// CHECK: %[[D:.*]] = ps.contract %arg0 [0, 1], %arg1 [1, 2] -> [0, 2] gelu_grad at %[[R]] :
// CHECK-NOT: ps.fused
// CHECK: %[[E:.*]] = ps.reshape %[[D]]
// CHECK: %[[F:.*]] = ps.reshape %[[E]]
// CHECK: ps.contract %[[F]]
func.func @derivative(%g: tensor<64x8xf32>, %w: tensor<8x12xf32>, %h: tensor<4x16x12xf32>, %v: tensor<12x5xf32>) -> tensor<64x5xf32> attributes {ps.class = "c"} {
  %d = ps.contract %g [0, 1], %w [1, 2] -> [0, 2] : (tensor<64x8xf32>, tensor<8x12xf32>) -> tensor<64x12xf32>
  %r = ps.reshape %d : tensor<64x12xf32> -> tensor<4x16x12xf32>
  %e = ps.gelu_grad tanh %r, %h : tensor<4x16x12xf32>
  %f = ps.reshape %e : tensor<4x16x12xf32> -> tensor<64x12xf32>
  %z = ps.contract %f [0, 1], %v [1, 2] -> [0, 2] : (tensor<64x12xf32>, tensor<12x5xf32>) -> tensor<64x5xf32>
  return %z : tensor<64x5xf32>
}

// The matmul of the weight gradient then also computes the bias gradient.
// CHECK-LABEL: func.func @derivative_and_sums
// CHECK: %[[D:.*]] = ps.contract {{.*}} gelu_grad at %arg2
// CHECK: ps.contract %[[D]] {{.*}} sums of 0
// CHECK-NOT: ps.fused
func.func @derivative_and_sums(%g: tensor<64x8xf32>, %w: tensor<8x12xf32>, %h: tensor<64x12xf32>, %x: tensor<64x5xf32>) -> (tensor<12x5xf32>, tensor<12xf32>) attributes {ps.class = "c"} {
  %d = ps.contract %g [0, 1], %w [1, 2] -> [0, 2] : (tensor<64x8xf32>, tensor<8x12xf32>) -> tensor<64x12xf32>
  %e = ps.gelu_grad tanh %d, %h : tensor<64x12xf32>
  %s = ps.reduce sum %e dims [0] : tensor<64x12xf32> -> tensor<12xf32>
  %z = ps.contract %e [0, 1], %x [0, 2] -> [1, 2] : (tensor<64x12xf32>, tensor<64x5xf32>) -> tensor<12x5xf32>
  return %z, %s : tensor<12x5xf32>, tensor<12xf32>
}

// Activation checkpointing: the recomputed matmul returns the GELU input for gelu_grad.
// CHECK-LABEL: func.func @recomputed_gelu_input
// CHECK: %[[Y:.*]], %[[H:.*]] = ps.contract {{.*}} gelu :
// CHECK: ps.contract {{.*}} gelu_grad at %[[H]]
func.func @recomputed_gelu_input(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>, %g: tensor<6x4xf32>, %v: tensor<4x12xf32>) -> (tensor<6x12xf32>, tensor<12x4xf32>) attributes {ps.class = "c"} {
  %h = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %y = ps.gelu tanh %h : tensor<6x12xf32>
  %d = ps.contract %g [0, 1], %v [1, 2] -> [0, 2] : (tensor<6x4xf32>, tensor<4x12xf32>) -> tensor<6x12xf32>
  %e = ps.gelu_grad tanh %d, %h : tensor<6x12xf32>
  %z = ps.contract %y [0, 1], %g [0, 2] -> [1, 2] : (tensor<6x12xf32>, tensor<6x4xf32>) -> tensor<12x4xf32>
  return %e, %z : tensor<6x12xf32>, tensor<12x4xf32>
}

// Twins. The epilogue computes only the tanh form, so an erf GELU is not fused.
// CHECK-LABEL: func.func @by_erf
// CHECK-NOT: ps.contract {{.*}} gelu
func.func @by_erf(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>, %k: tensor<6x12xf32>) -> (tensor<6x12xf32>, tensor<6x12xf32>) attributes {ps.class = "c"} {
  %h = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %y = ps.gelu erf %h : tensor<6x12xf32>
  %d = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %e = ps.gelu_grad erf %d, %k : tensor<6x12xf32>
  return %y, %e : tensor<6x12xf32>, tensor<6x12xf32>
}

// Another kernel also computes with the GELU input.
// CHECK-LABEL: func.func @gelu_input_with_two_uses
// CHECK-NOT: ps.contract {{.*}} gelu
func.func @gelu_input_with_two_uses(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>) -> (tensor<6x12xf32>, tensor<6x12xf32>) attributes {ps.class = "c"} {
  %h = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %y = ps.gelu tanh %h : tensor<6x12xf32>
  %e = ps.exp %h : tensor<6x12xf32>
  return %y, %e : tensor<6x12xf32>, tensor<6x12xf32>
}

// Three derivatives that stay in kernels: the cotangent is also a result, the GELU input comes from
// a kernel, or the matmul already has a bias.
// CHECK-LABEL: func.func @derivatives_by_kernels
// CHECK-NOT: gelu_grad at
func.func @derivatives_by_kernels(%g: tensor<6x8xf32>, %w: tensor<8x12xf32>, %h: tensor<6x12xf32>, %b: tensor<12xf32>)
    -> (tensor<6x12xf32>, tensor<6x12xf32>, tensor<6x12xf32>, tensor<6x12xf32>) attributes {ps.class = "c"} {
  %c = ps.contract %g [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %d = ps.gelu_grad tanh %c, %h : tensor<6x12xf32>
  %i = ps.contract %g [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %j = ps.exp %h : tensor<6x12xf32>
  %k = ps.gelu_grad tanh %i, %j : tensor<6x12xf32>
  %l = ps.contract %g [0, 1], %w [1, 2] -> [0, 2] bias %b : (tensor<6x8xf32>, tensor<8x12xf32>, tensor<12xf32>) -> tensor<6x12xf32>
  %m = ps.gelu_grad tanh %l, %h : tensor<6x12xf32>
  return %c, %d, %k, %m : tensor<6x12xf32>, tensor<6x12xf32>, tensor<6x12xf32>, tensor<6x12xf32>
}

// Matmuls in f64, with a result type other than the operands', or with a batch have no epilogue.
// CHECK-LABEL: func.func @unsupported_matmuls
// CHECK-NOT: ps.contract {{.*}} gelu
func.func @unsupported_matmuls(%x: tensor<6x8xf64>, %w: tensor<8x12xf64>, %u: tensor<6x8xbf16>, %v: tensor<8x12xbf16>, %p: tensor<3x6x8xf32>, %q: tensor<3x8x12xf32>)
    -> (tensor<6x12xf64>, tensor<6x12xf32>, tensor<3x6x12xf32>) attributes {ps.class = "c"} {
  %h = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf64>, tensor<8x12xf64>) -> tensor<6x12xf64>
  %y = ps.gelu tanh %h : tensor<6x12xf64>
  %i = ps.contract %u [0, 1], %v [1, 2] -> [0, 2] : (tensor<6x8xbf16>, tensor<8x12xbf16>) -> tensor<6x12xf32>
  %z = ps.gelu tanh %i : tensor<6x12xf32>
  %j = ps.contract %p [3, 0, 1], %q [3, 1, 2] -> [3, 0, 2] : (tensor<3x6x8xf32>, tensor<3x8x12xf32>) -> tensor<3x6x12xf32>
  %a = ps.gelu tanh %j : tensor<3x6x12xf32>
  return %y, %z, %a : tensor<6x12xf64>, tensor<6x12xf32>, tensor<3x6x12xf32>
}

// The GELU of partial sums differs from the GELU of their sum.
// CHECK-LABEL: func.func @gelu_after_a_collective
// CHECK-NOT: ps.contract {{.*}} gelu
func.func @gelu_after_a_collective(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>) -> tensor<6x12xf32> attributes {ps.class = "c"} {
  %p = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %q = ps.all_reduce sum %p over ["tp"] : tensor<6x12xf32>
  %y = ps.gelu tanh %q : tensor<6x12xf32>
  return %y : tensor<6x12xf32>
}

// A matmul epilogue overwrites its result, so a separate kernel adds the result to the accumulator.
// CHECK-LABEL: func.func @accumulated_by_a_kernel
// CHECK: %[[D:.*]] = ps.contract {{.*}} gelu_grad at %arg2
// CHECK: %[[C:.*]] = ps.fused(%[[D]])
// CHECK: ps.accumulate %arg3, %[[C]]
func.func @accumulated_by_a_kernel(%g: tensor<6x8xf32>, %w: tensor<8x12xf32>, %h: tensor<6x12xf32>, %r: !ps.ref<tensor<6x12xf32>>) attributes {ps.class = "c"} {
  %c = ps.contract %g [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %d = ps.gelu_grad tanh %c, %h : tensor<6x12xf32>
  ps.accumulate %r, %d : !ps.ref<tensor<6x12xf32>>
  return
}
