// RUN: ps-opt -ps-defer-sums %s | FileCheck %s
// RUN: ps-opt -ps-defer-sums=activations=true %s | FileCheck %s --check-prefix=ACTIVATIONS

// The cotangent comes from attention, a matmul or a collective. The bias gradient's sum and its
// accumulation move to the phase of the weight gradient. Other readers of the widened cotangent
// keep their copy in backward_input.
ps.mesh @mesh <"tp" = 2 : tensor>
ps.variable accumulator @db : tensor<12xf32>
ps.variable accumulator @dw : tensor<12x8xf32>
ps.variable accumulator @dc : tensor<64xf32>

// CHECK-LABEL: func.func @micro_batch
// CHECK: ps.convert %{{.*}} {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64}
// CHECK: ps.reduce sum %{{.*}} dims [1] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64}
// CHECK: %[[C:.*]] = ps.convert %{{.*}} {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64}
// CHECK: ps.reduce sum %[[C]] dims [0] {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64}
// CHECK: ps.accumulate @db, %{{.*}} {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64}
func.func @micro_batch(%h: tensor<64x4xbf16>, %v: tensor<4x12xbf16>, %x: tensor<64x8xbf16>) {
  %g = ps.contract %h [0, 1], %v [1, 2] -> [0, 2] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : (tensor<64x4xbf16>, tensor<4x12xbf16>) -> tensor<64x12xbf16>
  %c = ps.convert %g {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xbf16> -> tensor<64x12xf32>
  %r = ps.reduce sum %c dims [1] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32> -> tensor<64xf32>
  %b = ps.reduce sum %c dims [0] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32> -> tensor<12xf32>
  %w = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : (tensor<64x12xbf16>, tensor<64x8xbf16>) -> tensor<12x8xf32>
  ps.accumulate @dc, %r {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64xf32>
  ps.accumulate @db, %b {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<12xf32>
  ps.accumulate @dw, %w {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : tensor<12x8xf32>
  return
}

// Twins, in which the sum stays: a fused kernel computes the cotangent, the matmul belongs to
// another segment, or a collective uses the sum.
// CHECK-LABEL: func.func @made_by_a_kernel
// CHECK: ps.reduce sum %{{.*}} {ps.phase = #ps.phase<backward_input>
func.func @made_by_a_kernel(%h: tensor<64x12xf32>, %x: tensor<64x8xf32>) {
  %g = ps.exp %h {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32>
  %b = ps.reduce sum %g dims [0] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32> -> tensor<12xf32>
  %w = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : (tensor<64x12xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
  ps.accumulate @db, %b {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<12xf32>
  ps.accumulate @dw, %w {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : tensor<12x8xf32>
  return
}

// CHECK-LABEL: func.func @matmul_of_another_segment
// CHECK: ps.reduce sum %{{.*}} {ps.phase = #ps.phase<backward_input>
func.func @matmul_of_another_segment(%g: tensor<64x12xf32>, %x: tensor<64x8xf32>) {
  %b = ps.reduce sum %g dims [0] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32> -> tensor<12xf32>
  %w = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #ps.phase<backward_weight>, ps.segment = 2 : i64} : (tensor<64x12xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
  ps.accumulate @db, %b {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<12xf32>
  ps.accumulate @dw, %w {ps.phase = #ps.phase<backward_weight>, ps.segment = 2 : i64} : tensor<12x8xf32>
  return
}

// CHECK-LABEL: func.func @sum_that_is_sent
// CHECK: ps.reduce sum %{{.*}} {ps.phase = #ps.phase<backward_input>
func.func @sum_that_is_sent(%g: tensor<64x12xf32>, %x: tensor<64x8xf32>) {
  %b = ps.reduce sum %g dims [0] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32> -> tensor<12xf32>
  %s = ps.all_reduce sum %b over ["tp"] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<12xf32>
  %w = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : (tensor<64x12xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
  ps.accumulate @db, %s {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<12xf32>
  ps.accumulate @dw, %w {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : tensor<12x8xf32>
  return
}

// A kernel computes the GELU derivative, so the sum stays. With activations=true, a matmul epilogue
// computes the tanh derivative and the sum moves. The erf derivative always needs a kernel.
// CHECK-LABEL: func.func @derivative_of_a_gelu
// CHECK-NOT: ps.reduce {{.*}}backward_weight
// ACTIVATIONS-LABEL: func.func @derivative_of_a_gelu
// ACTIVATIONS: ps.reduce sum %{{.*}} dims [0] {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64}
// ACTIVATIONS: ps.reduce sum %{{.*}} dims [0] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64}
func.func @derivative_of_a_gelu(%h: tensor<64x4xf32>, %v: tensor<4x12xf32>, %s: tensor<64x12xf32>, %x: tensor<64x8xf32>) {
  %c = ps.contract %h [0, 1], %v [1, 2] -> [0, 2] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : (tensor<64x4xf32>, tensor<4x12xf32>) -> tensor<64x12xf32>
  %g = ps.gelu_grad tanh %c, %s {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32>
  %b = ps.reduce sum %g dims [0] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32> -> tensor<12xf32>
  %w = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : (tensor<64x12xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
  ps.accumulate @db, %b {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<12xf32>
  ps.accumulate @dw, %w {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : tensor<12x8xf32>
  %d = ps.contract %h [0, 1], %v [1, 2] -> [0, 2] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : (tensor<64x4xf32>, tensor<4x12xf32>) -> tensor<64x12xf32>
  %e = ps.gelu_grad erf %d, %s {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32>
  %f = ps.reduce sum %e dims [0] {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<64x12xf32> -> tensor<12xf32>
  %y = ps.contract %e [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : (tensor<64x12xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
  ps.accumulate @db, %f {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<12xf32>
  ps.accumulate @dw, %y {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : tensor<12x8xf32>
  return
}
