// RUN: ps-opt %s -split-input-file -ps-outline-segments -ps-verify-partitioned | FileCheck %s

// Gradients that are reduced in another type are converted by one run each. All conversions precede
// the collectives, so that the collectives form one bucket. Equal conversions share a class.
module attributes {ps.level = #ps.level<partitioned>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @v : tensor<8xf32>
  ps.variable gradient @v.grad of @v {ps.sharding = #ps.sharding<@mesh, [{}], partial = {"dp": sum}>} : tensor<8xf32>
  ps.variable parameter @w : tensor<8xf32>
  ps.variable gradient @w.grad of @w {ps.sharding = #ps.sharding<@mesh, [{}], partial = {"dp": sum}>} : tensor<8xf32>
  // CHECK-LABEL: func.func @stage0.update
  // CHECK-NEXT: %[[A:.*]] = rank.run @[[CLASS:.*]]() variables [@v.grad]
  // CHECK-NEXT: %[[B:.*]] = rank.run @[[CLASS]]() variables [@w.grad]
  // CHECK-NEXT: %[[SA:.*]] = ps.all_reduce sum %[[A]]
  // CHECK-NEXT: %[[SB:.*]] = ps.all_reduce sum %[[B]]
  // CHECK-NEXT: rank.run @[[UPDATE:.*]](%[[SA]]) variables [@v]
  // CHECK-NEXT: rank.run @[[UPDATE]](%[[SB]]) variables [@w]
  func.func @update() {
    %g = ps.read @v.grad {ps.phase = #ps.phase<update>} : tensor<8xf32>
    %n = ps.convert %g {ps.phase = #ps.phase<update>} : tensor<8xf32> -> tensor<8xbf16>
    %s = ps.all_reduce sum %n over ["dp"] {ps.phase = #ps.phase<update>} : tensor<8xbf16>
    %f = ps.convert %s {ps.phase = #ps.phase<update>} : tensor<8xbf16> -> tensor<8xf32>
    ps.write @v, %f {ps.phase = #ps.phase<update>} : tensor<8xf32>
    %g2 = ps.read @w.grad {ps.phase = #ps.phase<update>} : tensor<8xf32>
    %n2 = ps.convert %g2 {ps.phase = #ps.phase<update>} : tensor<8xf32> -> tensor<8xbf16>
    %s2 = ps.all_reduce sum %n2 over ["dp"] {ps.phase = #ps.phase<update>} : tensor<8xbf16>
    %f2 = ps.convert %s2 {ps.phase = #ps.phase<update>} : tensor<8xbf16> -> tensor<8xf32>
    ps.write @w, %f2 {ps.phase = #ps.phase<update>} : tensor<8xf32>
    return
  }
}

// -----

// Twin: a conversion without a collective is part of the update run.
module attributes {ps.level = #ps.level<partitioned>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @v : tensor<8xf32>
  ps.variable gradient @v.grad of @v : tensor<8xf32>
  // CHECK-LABEL: func.func @stage0.update
  // CHECK-NEXT: rank.run {{.*}} variables [@v.grad, @v]
  // CHECK-NEXT: return
  func.func @update() {
    %g = ps.read @v.grad {ps.phase = #ps.phase<update>} : tensor<8xf32>
    %n = ps.convert %g {ps.phase = #ps.phase<update>} : tensor<8xf32> -> tensor<8xbf16>
    %f = ps.convert %n {ps.phase = #ps.phase<update>} : tensor<8xbf16> -> tensor<8xf32>
    ps.write @v, %f {ps.phase = #ps.phase<update>} : tensor<8xf32>
    return
  }
}
