// Pairs of contractions: which are found and which must not be.
// RUN: ps-opt %s --split-input-file --ps-set-mesh=mesh=tp=2 --ps-seed-shardings=policy=megatron | FileCheck %s

// Both contractions of a gated product are the first of the pair.
// CHECK-DAG: @gate {{.*}}column parallel{{.*}}[{"tp"}, {}]
// CHECK-DAG: @up {{.*}}column parallel{{.*}}[{"tp"}, {}]
// CHECK-DAG: @down {{.*}}row parallel{{.*}}[{}, {"tp"}]
ps.variable parameter @gate : tensor<16x8xf32>
ps.variable parameter @up : tensor<16x8xf32>
ps.variable parameter @down : tensor<8x16xf32>
func.func @gated_product(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x8xf32> {
  %g = ps.read @gate : tensor<16x8xf32>
  %u = ps.read @up : tensor<16x8xf32>
  %d = ps.read @down : tensor<8x16xf32>
  %0 = ps.contract %x [0, 1], %g [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %1 = ps.contract %x [0, 1], %u [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %2 = ps.silu %0 : tensor<4x16xf32>
  %3 = ps.mul %2, %1 : tensor<4x16xf32>
  %4 = ps.contract %3 [0, 1], %d [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// -----

// Gate and up as one variable: split within each of the two.
// CHECK-DAG: @gate_up {{.*}}column parallel{{.*}}[(2 x 16 {"tp"}), {}]
// CHECK-DAG: @down {{.*}}row parallel{{.*}}[{}, {"tp"}]
ps.variable parameter @gate_up : tensor<32x8xf32>
ps.variable parameter @down : tensor<8x16xf32>
func.func @fused_gated_product(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x8xf32> {
  %g = ps.read @gate_up : tensor<32x8xf32>
  %d = ps.read @down : tensor<8x16xf32>
  %0 = ps.contract %x [0, 1], %g [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
  %1 = ps.slice %0 [0, 0] to [4, 16] by [1, 1] : tensor<4x32xf32> -> tensor<4x16xf32>
  %2 = ps.slice %0 [0, 16] to [4, 32] by [1, 1] : tensor<4x32xf32> -> tensor<4x16xf32>
  %3 = ps.silu %1 : tensor<4x16xf32>
  %4 = ps.mul %3, %2 : tensor<4x16xf32>
  %5 = ps.contract %4 [0, 1], %d [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// -----

// Of three layers the first two are a pair; the third is left.
// CHECK-DAG: @one {{.*}}column parallel
// CHECK-DAG: @two {{.*}}row parallel
// CHECK-DAG: @three : tensor
ps.variable parameter @one : tensor<16x8xf32>
ps.variable parameter @two : tensor<12x16xf32>
ps.variable parameter @three : tensor<10x12xf32>
func.func @three_layers(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x10xf32> {
  %a = ps.read @one : tensor<16x8xf32>
  %b = ps.read @two : tensor<12x16xf32>
  %c = ps.read @three : tensor<10x12xf32>
  %0 = ps.contract %x [0, 1], %a [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %1 = ps.relu %0 : tensor<4x16xf32>
  %2 = ps.contract %1 [0, 1], %b [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<12x16xf32>) -> tensor<4x12xf32>
  %3 = ps.relu %2 : tensor<4x12xf32>
  %4 = ps.contract %3 [0, 1], %c [2, 1] -> [0, 2] : (tensor<4x12xf32>, tensor<10x12xf32>) -> tensor<4x10xf32>
  return %4 : tensor<4x10xf32>
}

// -----

// Twin: a normalisation between two contractions would need communication.
// CHECK-DAG: @before : tensor
// CHECK-DAG: @after : tensor
ps.variable parameter @before : tensor<16x8xf32>
ps.variable parameter @after : tensor<8x16xf32>
func.func @norm_between(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x8xf32> {
  %a = ps.read @before : tensor<16x8xf32>
  %b = ps.read @after : tensor<8x16xf32>
  %0 = ps.contract %x [0, 1], %a [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %1, %r = ps.layer_norm %0 epsilon 1.0e-5 : tensor<4x16xf32> -> tensor<4x16xf32>, tensor<4xf32>
  %2 = ps.contract %1 [0, 1], %b [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// Twin: what comes from an input beside the first contraction is not split.
// CHECK-DAG: @first : tensor
// CHECK-DAG: @second : tensor
ps.variable parameter @first : tensor<8x8xf32>
ps.variable parameter @second : tensor<8x8xf32>
func.func @residual_between(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x8xf32> {
  %a = ps.read @first : tensor<8x8xf32>
  %b = ps.read @second : tensor<8x8xf32>
  %0 = ps.contract %x [0, 1], %a [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = ps.add %0, %x : tensor<4x8xf32>
  %2 = ps.contract %1 [0, 1], %b [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
