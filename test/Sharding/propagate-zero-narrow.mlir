// Gradients that are reduced in 16 bits are rounded before the reduce-scatter of ZeRO, not after.
// RUN: ps-opt %s -split-input-file --ps-propagate-shardings=zero=1 --ps-verify-planned --ps-partition | FileCheck %s

// CHECK-LABEL: func.func @update()
// CHECK: %[[G:.*]] = ps.read @v.grad {{.*}} : tensor<8x4xf32>
// CHECK: %[[NARROW:.*]] = ps.convert %[[G]] {{.*}} : tensor<8x4xf32> -> tensor<8x4xbf16>
// CHECK: %[[SUM:.*]] = ps.reduce_scatter sum %[[NARROW]] over ["dp"] dim 0 {{.*}} : tensor<8x4xbf16> -> tensor<4x4xbf16>
// CHECK: ps.convert %[[SUM]] {{.*}} : tensor<4x4xbf16> -> tensor<4x4xf32>
module attributes {ps.level = #ps.level<planned>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @v : tensor<8x4xf32>
  ps.variable gradient @v.grad of @v : tensor<8x4xf32>
  ps.variable optimizer @v.m of @v : tensor<8x4xf32>
  func.func @micro_batch(%x: tensor<16x4xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>}) {
    %ones = ps.constant dense<1.0> : tensor<16x8xf32>
    %y = ps.contract %ones [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #ps.phase<backward_weight>} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    ps.accumulate @v.grad, %y {ps.phase = #ps.phase<backward_weight>} : tensor<8x4xf32>
    return
  }
  func.func @update() {
    %g = ps.read @v.grad {ps.phase = #ps.phase<update>} : tensor<8x4xf32>
    %n = ps.convert %g {ps.phase = #ps.phase<update>} : tensor<8x4xf32> -> tensor<8x4xbf16>
    %f = ps.convert %n {ps.phase = #ps.phase<update>} : tensor<8x4xbf16> -> tensor<8x4xf32>
    %m = ps.read @v.m {ps.phase = #ps.phase<update>} : tensor<8x4xf32>
    %a = ps.add %m, %f {ps.phase = #ps.phase<update>} : tensor<8x4xf32>
    ps.write @v.m, %a {ps.phase = #ps.phase<update>} : tensor<8x4xf32>
    return
  }
}

// -----

// Twin: a gradient without a conversion is scattered where it is read.
// CHECK-LABEL: func.func @update()
// CHECK: %[[G:.*]] = ps.read @v.grad {{.*}} : tensor<8x4xf32>
// CHECK: ps.reduce_scatter sum %[[G]] over ["dp"] dim 0 {{.*}} : tensor<8x4xf32> -> tensor<4x4xf32>
module attributes {ps.level = #ps.level<planned>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @v : tensor<8x4xf32>
  ps.variable gradient @v.grad of @v : tensor<8x4xf32>
  ps.variable optimizer @v.m of @v : tensor<8x4xf32>
  func.func @micro_batch(%x: tensor<16x4xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>}) {
    %ones = ps.constant dense<1.0> : tensor<16x8xf32>
    %y = ps.contract %ones [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #ps.phase<backward_weight>} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    ps.accumulate @v.grad, %y {ps.phase = #ps.phase<backward_weight>} : tensor<8x4xf32>
    return
  }
  func.func @update() {
    %g = ps.read @v.grad {ps.phase = #ps.phase<update>} : tensor<8x4xf32>
    %h = ps.neg %g {ps.phase = #ps.phase<update>} : tensor<8x4xf32>
    %m = ps.read @v.m {ps.phase = #ps.phase<update>} : tensor<8x4xf32>
    %a = ps.add %m, %h {ps.phase = #ps.phase<update>} : tensor<8x4xf32>
    ps.write @v.m, %a {ps.phase = #ps.phase<update>} : tensor<8x4xf32>
    return
  }
}
