// Finds pairs of column and row parallel contractions.
// RUN: ps-opt %s --split-input-file --ps-set-mesh=mesh=tp=2 --ps-seed-shardings=policy=megatron | FileCheck %s

// In a gated MLP, both contractions that read the input are column parallel.
// CHECK-DAG: @gate {{.*}}column parallel{{.*}}[{"tp"}, {}]
// CHECK-DAG: @up {{.*}}column parallel{{.*}}[{"tp"}, {}]
// CHECK-DAG: @down {{.*}}row parallel{{.*}}[{}, {"tp"}]
ps.variable parameter @gate : tensor<16x8xf32>
ps.variable parameter @up : tensor<16x8xf32>
ps.variable parameter @down : tensor<8x16xf32>
func.func @gated_mlp(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x8xf32> {
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

// Gate and up are one variable, which is split within each half.
// CHECK-DAG: @gate_up {{.*}}column parallel{{.*}}[(2 x 16 {"tp"}), {}]
// CHECK-DAG: @down {{.*}}row parallel{{.*}}[{}, {"tp"}]
ps.variable parameter @gate_up : tensor<32x8xf32>
ps.variable parameter @down : tensor<8x16xf32>
func.func @fused_gated_mlp(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x8xf32> {
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

// The first two of three layers are a pair. The third layer has no seed.
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

// Twin: a normalization between the contractions would need communication.
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

// Twin: the value between the contractions also depends on an input directly, so it is not split.
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
