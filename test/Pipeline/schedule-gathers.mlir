// RUN: ps-opt %s -ps-schedule=bucket-bytes=40 -ps-verify-scheduled | FileCheck %s

// Gathers for one run start together in buckets of one type up to the bucket size. The wait
// precedes the run. Each half of the backward starts its own gathers.
module attributes {ps.level = #ps.level<partitioned>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @u {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<8xf32>
  ps.variable parameter @v {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<8xf32>
  ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<16xf32>
  func.func @h.forward(%u: tensor<8xf32>, %v: tensor<8xf32>, %w: tensor<16xf32>) attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return
  }
  func.func @h.backward_input(%u: tensor<8xf32>) attributes {ps.class = "h", ps.phase = #ps.phase<backward_input>, ps.saved = 0 : i64} {
    return
  }
  // CHECK-LABEL: rank.program @pp0
  // CHECK-NEXT: %[[U:.*]] = ps.read @u
  // CHECK-NEXT: %[[V:.*]] = ps.read @v
  // CHECK-NEXT: %[[W:.*]] = ps.read @w
  // CHECK-NEXT: %[[R:.*]]:2, %[[T:.*]] = rank.start "all_gather"(%[[U]], %[[V]]) axes ["dp"] dims [0, 0] queue "dp.gather"
  // CHECK-NEXT: %[[S:.*]], %[[Q:.*]] = rank.start "all_gather"(%[[W]])
  // CHECK-NEXT: rank.wait %[[T]]
  // CHECK-NEXT: rank.wait %[[Q]]
  // CHECK-NEXT: rank.run @h.forward(%[[R]]#0, %[[R]]#1, %[[S]])
  // CHECK-NEXT: %[[U2:.*]] = ps.read @u
  // CHECK-NEXT: %[[R2:.*]], %[[T2:.*]] = rank.start "all_gather"(%[[U2]])
  // CHECK-NEXT: rank.wait %[[T2]]
  // CHECK-NEXT: rank.run @h.backward_input(%[[R2]])
  func.func @stage0.micro_batch(%mb: i64) attributes {ps.stage = 0 : i64} {
    %0 = ps.read @u {ps.phase = #ps.phase<forward>} : tensor<4xf32>
    %u = ps.all_gather %0 over ["dp"] dim 0 {ps.phase = #ps.phase<forward>} : tensor<4xf32> -> tensor<8xf32>
    %1 = ps.read @v {ps.phase = #ps.phase<forward>} : tensor<4xf32>
    %v = ps.all_gather %1 over ["dp"] dim 0 {ps.phase = #ps.phase<forward>} : tensor<4xf32> -> tensor<8xf32>
    %2 = ps.read @w {ps.phase = #ps.phase<forward>} : tensor<8xf32>
    %w = ps.all_gather %2 over ["dp"] dim 0 {ps.phase = #ps.phase<forward>} : tensor<8xf32> -> tensor<16xf32>
    rank.run @h.forward (%u, %v, %w) {ps.phase = #ps.phase<forward>} : (tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> ()
    %again = ps.all_gather %0 over ["dp"] dim 0 {ps.phase = #ps.phase<backward_input>} : tensor<4xf32> -> tensor<8xf32>
    rank.run @h.backward_input (%again) {ps.phase = #ps.phase<backward_input>} : (tensor<8xf32>) -> ()
    return
  }
}
