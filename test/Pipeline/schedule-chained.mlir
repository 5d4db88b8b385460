// RUN: ps-opt %s -ps-schedule -ps-verify-scheduled | FileCheck %s

// A bucket starts all its collectives at once, so a collective that reads the result of another one
// is in a later bucket.
module attributes {ps.level = #ps.level<partitioned>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable accumulator @sum : tensor<f32>
  ps.variable accumulator @count : tensor<f32>
  func.func @h.update(%a: tensor<f32>, %b: tensor<f32>) attributes {ps.class = "h", ps.phase = #ps.phase<update>, ps.saved = 0 : i64} {
    return
  }
  func.func @stage0.micro_batch(%mb: i64) attributes {ps.stage = 0 : i64} {
    return
  }
  // CHECK-LABEL: rank.program @pp0
  // CHECK: %[[A:.*]]:2, %[[T:.*]] = rank.start "all_reduce"(%{{.*}}, %{{.*}}) kind sum axes ["dp"]
  // CHECK: rank.wait %[[T]]
  // CHECK: %[[B:.*]], %[[Q:.*]] = rank.start "all_reduce"(%[[A]]#0) kind sum axes ["dp"]
  // CHECK: rank.wait %[[Q]]
  // CHECK: rank.run @h.update(%[[B]], %[[A]]#1)
  func.func @stage0.update() attributes {ps.stage = 0 : i64} {
    %0 = ps.read @sum {ps.phase = #ps.phase<update>} : tensor<f32>
    %1 = ps.read @count {ps.phase = #ps.phase<update>} : tensor<f32>
    %2 = ps.all_reduce sum %0 over ["dp"] {ps.phase = #ps.phase<update>} : tensor<f32>
    %3 = ps.all_reduce sum %1 over ["dp"] {ps.phase = #ps.phase<update>} : tensor<f32>
    %4 = ps.all_reduce sum %2 over ["dp"] {ps.phase = #ps.phase<update>} : tensor<f32>
    rank.run @h.update (%4, %3) {ps.phase = #ps.phase<update>} : (tensor<f32>, tensor<f32>) -> ()
    return
  }
}
