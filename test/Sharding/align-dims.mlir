// Pads the dims of parameters that matmuls read, by means of a mesh axis of kind multiple.
// RUN: ps-opt %s --split-input-file --ps-set-mesh=mesh=tp=2 --ps-seed-shardings=policy=megatron --ps-align-dims="multiple=8 max-waste=20" | FileCheck %s
// RUN: ps-opt %s --split-input-file --ps-set-mesh=mesh=tp=2 --ps-seed-shardings=policy=megatron --ps-align-dims="multiple=8 max-waste=5" | FileCheck %s --check-prefix=WASTE
// RUN: ps-opt %s --split-input-file --ps-set-mesh=mesh=tp=2 --ps-seed-shardings=policy=megatron --ps-align-dims="multiple=1" | FileCheck %s --check-prefix=WASTE
// WASTE-NOT: pad.

// The larger odd dim is padded, although the matmul reads it through a conversion and a transpose.
// Parameters that no matmul reads are unchanged.
// CHECK-LABEL: ps.mesh @mesh <"tp" = 2 : tensor, "pad.8" = 8 : multiple>
// CHECK: @table {ps.reason = "dim 0 padded to 32 elements per rank, a multiple of 8 (--align-dims)", ps.sharding = #ps.sharding<@mesh, [{"pad.8"}, {}]>}
// CHECK: @bias : tensor<30xf32>
// CHECK: @other : tensor<30x8xf32>
ps.variable parameter @table : tensor<30x7xf32>
ps.variable parameter @bias : tensor<30xf32>
ps.variable parameter @other : tensor<30x8xf32>
func.func @logits(%x: tensor<4x7xbf16> {ps.name = "x"}) -> (tensor<4x30xbf16>, tensor<30x8xf32>) {
  %w = ps.read @table : tensor<30x7xf32>
  %o = ps.read @other : tensor<30x8xf32>
  %0 = ps.convert %w : tensor<30x7xf32> -> tensor<30x7xbf16>
  %1 = ps.transpose %0 [1, 0] : tensor<30x7xbf16> -> tensor<7x30xbf16>
  %2 = ps.contract %x [0, 1], %1 [1, 2] -> [0, 2] : (tensor<4x7xbf16>, tensor<7x30xbf16>) -> tensor<4x30xbf16>
  return %2, %o : tensor<4x30xbf16>, tensor<30x8xf32>
}

// -----

// Padding applies after the split over tp: 30 elements give shards of 15, padded to 16. The matmul
// and later ops on the shards have padded results too.
// CHECK-LABEL: ps.mesh @mesh
// CHECK: @up {{.*}}column parallel{{.*}}; dim 0 padded to 16 elements per rank{{.*}}[{"tp", "pad.8"}, {}]
// CHECK: @down {{.*}}row parallel{{.*}}; dim 1 padded to 16 elements per rank{{.*}}[{}, {"tp", "pad.8"}]
ps.variable parameter @up : tensor<30x8xf32>
ps.variable parameter @down : tensor<8x30xf32>
func.func @pair(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x8xf32> {
  %u = ps.read @up : tensor<30x8xf32>
  %d = ps.read @down : tensor<8x30xf32>
  %0 = ps.contract %x [0, 1], %u [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<30x8xf32>) -> tensor<4x30xf32>
  %1 = ps.gelu tanh %0 : tensor<4x30xf32>
  %2 = ps.contract %1 [0, 1], %d [2, 1] -> [0, 2] : (tensor<4x30xf32>, tensor<8x30xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// Twin: all dims are multiples of 8.
// CHECK-LABEL: ps.mesh @mesh <"tp" = 2 : tensor>
// CHECK: @even : tensor<32x8xf32>
ps.variable parameter @even : tensor<32x8xf32>
func.func @even_logits(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x32xf32> {
  %w = ps.read @even : tensor<32x8xf32>
  %0 = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
  return %0 : tensor<4x32xf32>
}
