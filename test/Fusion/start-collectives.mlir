// RUN: sed -e '1i module attributes {ps.cluster = "h100-sxm"} {' -e '$a }' %s | ps-opt -ps-start-collectives | FileCheck %s
// RUN: ps-opt -ps-start-collectives=chunks=1 %s | FileCheck %s
// RUN: ps-opt -ps-start-collectives %s | FileCheck %s --check-prefix=CPU --implicit-check-not=ps.wait
// RUN: ps-opt -ps-start-collectives=chunks=2 %s | FileCheck %s --check-prefix=CHUNKS
// RUN: sed -e '1i module attributes {ps.cluster = "h100-sxm"} {' -e '$a }' %s | ps-opt -ps-start-collectives=chunks=1 | ps-opt | FileCheck %s

// CPU cores run the communication themselves, so nothing moves and no collective is started early.
// CPU: ps.mesh
ps.mesh @mesh <"tp" = 2 : tensor>

// The matmul of the weight gradient and the all-reduce are independent. The matmul and its
// accumulation move between the start of the all-reduce and its wait.
// CHECK-LABEL: func.func @column_parallel_backward
// CHECK: %[[X:.*]] = ps.contract %{{.*}}, %{{.*}} [0, 2]
// CHECK-NEXT: %[[S:.*]] = ps.all_reduce sum %[[X]]
// CHECK-NEXT: %[[W:.*]] = ps.contract
// CHECK-NEXT: ps.accumulate %{{.*}}, %[[W]]
// CHECK-NEXT: %[[R:.*]] = ps.wait %[[S]] : tensor<8x16xf32>
// CHECK-NEXT: ps.fused(%[[R]])
// CHUNKS-LABEL: func.func @column_parallel_backward
// CHUNKS: ps.all_reduce sum %{{.*}} over ["tp"] {ps.chunks = 2 : i64}
func.func @column_parallel_backward(%g: tensor<8x4xf32>, %x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %dw: !ps.ref<tensor<16x4xf32>>)
    -> tensor<8x16xf32> attributes {ps.class = "c"} {
  %0 = ps.contract %x [0, 1], %g [0, 2] -> [1, 2] : (tensor<8x16xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  ps.accumulate %dw, %0 : !ps.ref<tensor<16x4xf32>>
  %1 = ps.contract %g [0, 1], %w [2, 1] -> [0, 2] : (tensor<8x4xf32>, tensor<16x4xf32>) -> tensor<8x16xf32>
  %2 = ps.all_reduce sum %1 over ["tp"] : tensor<8x16xf32>
  %3 = ps.fused (%2) : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    %e = ps.exp %a : tensor<8x16xf32>
    ps.yield %e : tensor<8x16xf32>
  }
  return %3 : tensor<8x16xf32>
}

// A matmul after the first use of the sum moves before the wait, together with its transpose.
// CHECK-LABEL: func.func @gradient_after_the_use
// CHECK: %[[S:.*]] = ps.all_reduce
// CHECK-NEXT: %[[T:.*]] = ps.transpose
// CHECK-NEXT: ps.contract %[[T]]
// CHECK-NEXT: ps.wait %[[S]]
// CHECK-NEXT: ps.fused
func.func @gradient_after_the_use(%g: tensor<8x16xf32>, %x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>)
    attributes {ps.class = "c"} {
  %0 = ps.all_reduce sum %g over ["tp"] : tensor<8x16xf32>
  %1 = ps.fused (%0) : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    %e = ps.exp %a : tensor<8x16xf32>
    ps.yield %e : tensor<8x16xf32>
  }
  %2 = ps.transpose %x [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32>
  %3 = ps.contract %2 [0, 1], %x [1, 2] -> [0, 2] : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  return %1, %3 : tensor<8x16xf32>, tensor<16x16xf32>
}

// Twin: the next op needs the sum and no independent matmul exists, so nothing overlaps. With
// chunks=2, the matmul and the all-reduce are split and overlap each other.
// CHECK-LABEL: func.func @row_parallel_forward
// CHECK: ps.contract
// CHECK-NEXT: ps.all_reduce sum %{{.*}} over ["tp"] : tensor<2x4x16xf32>
// CHECK-NEXT: ps.fused
// CHECK-NOT: ps.wait
// CHUNKS-LABEL: func.func @row_parallel_forward
// CHUNKS: %[[S:.*]] = ps.all_reduce sum %{{.*}} over ["tp"] {ps.chunks = 2 : i64} : tensor<2x4x16xf32>
// CHUNKS-NEXT: ps.wait %[[S]]
func.func @row_parallel_forward(%x: tensor<2x4x8xf32>, %w: tensor<8x16xf32>) -> tensor<2x4x16xf32> attributes {ps.class = "c"} {
  %0 = ps.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %1 = ps.all_reduce sum %0 over ["tp"] : tensor<2x4x16xf32>
  %2 = ps.fused (%1) : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32> {
  ^bb0(%a: tensor<2x4x16xf32>):
    %e = ps.exp %a : tensor<2x4x16xf32>
    ps.yield %e : tensor<2x4x16xf32>
  }
  return %2 : tensor<2x4x16xf32>
}

// Sequence parallelism: a gather along the sequence before one matmul, a scatter after the other.
// Each chunk holds whole samples.
// CHUNKS-LABEL: func.func @sequence_parallel
// CHUNKS: %[[G:.*]] = ps.all_gather %{{.*}} over ["tp"] dim 1 {ps.chunks = 2 : i64}
// CHUNKS-NEXT: %[[W:.*]] = ps.wait %[[G]]
// CHUNKS-NEXT: ps.contract %[[W]]
// CHUNKS-NEXT: ps.fused
// CHUNKS: ps.contract
// CHUNKS-NEXT: %[[S:.*]] = ps.reduce_scatter sum %{{.*}} over ["tp"] dim 1 {ps.chunks = 2 : i64}
// CHUNKS-NEXT: ps.wait %[[S]]
func.func @sequence_parallel(%x: tensor<2x2x8xf32>, %w: tensor<8x16xf32>, %v: tensor<16x8xf32>) -> tensor<2x2x8xf32>
    attributes {ps.class = "c"} {
  %0 = ps.all_gather %x over ["tp"] dim 1 : tensor<2x2x8xf32> -> tensor<2x4x8xf32>
  %1 = ps.contract %0 [0, 1, 2], %w [2, 3] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %2 = ps.fused (%1) : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32> {
  ^bb0(%a: tensor<2x4x16xf32>):
    %e = ps.exp %a : tensor<2x4x16xf32>
    ps.yield %e : tensor<2x4x16xf32>
  }
  %3 = ps.contract %2 [0, 1, 2], %v [2, 3] -> [0, 1, 3] : (tensor<2x4x16xf32>, tensor<16x8xf32>) -> tensor<2x4x8xf32>
  %4 = ps.reduce_scatter sum %3 over ["tp"] dim 1 : tensor<2x4x8xf32> -> tensor<2x2x8xf32>
  return %4 : tensor<2x2x8xf32>
}

// A bias applies to all rows, so it applies to each chunk.
// CHUNKS-LABEL: func.func @matmul_with_biases
// CHUNKS: ps.all_gather %{{.*}} over ["tp"] dim 1 {ps.chunks = 2 : i64}
// CHUNKS-NEXT: ps.wait
// CHUNKS-NEXT: ps.contract {{.*}} bias %arg2
func.func @matmul_with_biases(%x: tensor<2x2x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<2x4x16xf32> attributes {ps.class = "c"} {
  %0 = ps.all_gather %x over ["tp"] dim 1 : tensor<2x2x8xf32> -> tensor<2x4x8xf32>
  %1 = ps.contract %0 [0, 1, 2], %w [2, 3] -> [0, 1, 3] bias %b : (tensor<2x4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> tensor<2x4x16xf32>
  return %1 : tensor<2x4x16xf32>
}

// Twin: every chunk needs the whole gathered bias, so its gather is not split.
// CHUNKS-LABEL: func.func @gathered_bias
// CHUNKS-NOT: ps.chunks
// CHUNKS: return
func.func @gathered_bias(%x: tensor<2x4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<8xf32>) -> tensor<2x4x16xf32> attributes {ps.class = "c"} {
  %0 = ps.all_gather %b over ["tp"] dim 0 : tensor<8xf32> -> tensor<16xf32>
  %1 = ps.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] bias %0 : (tensor<2x4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> tensor<2x4x16xf32>
  return %1 : tensor<2x4x16xf32>
}

// Twin: a matmul that also computes sums is not split.
// CHUNKS-LABEL: func.func @matmul_with_sums
// CHUNKS-NOT: ps.chunks
// CHUNKS: return
func.func @matmul_with_sums(%g: tensor<64x12xf32>, %x: tensor<64x8xf32>) -> (tensor<12x8xf32>, tensor<12xf32>) attributes {ps.class = "c"} {
  %w, %b = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] sums of 0 : (tensor<64x12xf32>, tensor<64x8xf32>) -> (tensor<12x8xf32>, tensor<12xf32>)
  %0 = ps.all_reduce sum %w over ["tp"] : tensor<12x8xf32>
  return %0, %b : tensor<12x8xf32>, tensor<12xf32>
}

// One sample: each chunk holds rows of every shard.
// CHUNKS-LABEL: func.func @one_sample_is_scattered
// CHUNKS: ps.reduce_scatter sum %{{.*}} over ["tp"] dim 1 {ps.chunks = 2 : i64}
func.func @one_sample_is_scattered(%x: tensor<1x4x8xf32>, %w: tensor<8x16xf32>) -> tensor<1x2x16xf32> attributes {ps.class = "c"} {
  %0 = ps.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] : (tensor<1x4x8xf32>, tensor<8x16xf32>) -> tensor<1x4x16xf32>
  %1 = ps.reduce_scatter sum %0 over ["tp"] dim 1 : tensor<1x4x16xf32> -> tensor<1x2x16xf32>
  return %1 : tensor<1x2x16xf32>
}

// Twins: a gather of one sample, a matmul result with another reader, and a matmul that contracts
// the gathered dim.
// CHUNKS-LABEL: func.func @one_sample_is_gathered
// CHUNKS-NOT: ps.chunks
// CHUNKS: return
func.func @one_sample_is_gathered(%x: tensor<1x2x8xf32>, %w: tensor<8x16xf32>) -> tensor<1x4x16xf32> attributes {ps.class = "c"} {
  %0 = ps.all_gather %x over ["tp"] dim 1 : tensor<1x2x8xf32> -> tensor<1x4x8xf32>
  %1 = ps.contract %0 [0, 1, 2], %w [2, 3] -> [0, 1, 3] : (tensor<1x4x8xf32>, tensor<8x16xf32>) -> tensor<1x4x16xf32>
  return %1 : tensor<1x4x16xf32>
}

// CHUNKS-LABEL: func.func @result_of_two_uses
// CHUNKS-NOT: ps.chunks
// CHUNKS: return
func.func @result_of_two_uses(%x: tensor<8x8xf32>, %w: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
    attributes {ps.class = "c"} {
  %0 = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = ps.all_reduce sum %0 over ["tp"] : tensor<8x16xf32>
  return %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
}

// CHUNKS-LABEL: func.func @gathered_summed_dim
// CHUNKS-NOT: ps.chunks
// CHUNKS: return
func.func @gathered_summed_dim(%x: tensor<2x8xf32>, %w: tensor<4x16xf32>) -> tensor<8x16xf32> attributes {ps.class = "c"} {
  %0 = ps.all_gather %x over ["tp"] dim 0 : tensor<2x8xf32> -> tensor<4x8xf32>
  %1 = ps.contract %0 [0, 1], %w [0, 2] -> [1, 2] : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// Twin: a write may overwrite a buffer that a moved op reads, so nothing moves.
// CHECK-LABEL: func.func @function_that_writes
// CHECK: ps.contract
// CHECK-NEXT: ps.all_reduce
// CHECK-NEXT: ps.fused
// CHECK-NOT: ps.wait
func.func @function_that_writes(%g: tensor<8x16xf32>, %x: tensor<8x16xf32>, %v: !ps.ref<tensor<8x16xf32>>) -> tensor<16x16xf32>
    attributes {ps.class = "c"} {
  %0 = ps.contract %x [0, 1], %g [0, 2] -> [1, 2] : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %1 = ps.all_reduce sum %g over ["tp"] : tensor<8x16xf32>
  %2 = ps.fused (%1) : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    %e = ps.exp %a : tensor<8x16xf32>
    ps.yield %e : tensor<8x16xf32>
  }
  ps.write %v, %2 : !ps.ref<tensor<8x16xf32>>
  return %0 : tensor<16x16xf32>
}

// Twin: functions without a class are unchanged.
// CHECK-LABEL: func.func @no_class
// CHECK: ps.all_reduce
// CHECK-NEXT: ps.contract
func.func @no_class(%g: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x16xf32>) {
  %0 = ps.all_reduce sum %g over ["tp"] : tensor<8x16xf32>
  %1 = ps.contract %g [0, 1], %g [0, 2] -> [1, 2] : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  return %0, %1 : tensor<8x16xf32>, tensor<16x16xf32>
}
