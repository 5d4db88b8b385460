// RUN: ps-opt %s -split-input-file -ps-overlap-collectives -ps-verify-scheduled | FileCheck %s

// Gathers for a run start before the previous run that waits for gathers, in the same order. Runs
// without gathers may lie in between.
module attributes {ps.level = #ps.level<scheduled>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @v {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<8xf32>
  ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<8xf32>
  func.func @h.forward(%w: tensor<8xf32>) attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return
  }
  func.func @k.forward() attributes {ps.class = "k", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return
  }
  // CHECK-LABEL: rank.program @pp0
  // CHECK-NEXT: ps.read @v
  // CHECK-NEXT: %{{.*}}, %[[T0:.*]] = rank.start
  // CHECK-NEXT: rank.wait %[[T0]]
  // CHECK-NEXT: %[[A:.*]] = ps.read @w
  // CHECK-NEXT: %{{.*}}, %[[T1:.*]] = rank.start "all_gather"(%[[A]])
  // CHECK-NEXT: %[[B:.*]] = ps.read @v
  // CHECK-NEXT: %{{.*}}, %[[T2:.*]] = rank.start "all_gather"(%[[B]])
  // CHECK-NEXT: rank.run @h.forward
  // CHECK-NEXT: rank.run @k.forward
  // CHECK-NEXT: rank.wait %[[T1]]
  // CHECK-NEXT: rank.wait %[[T2]]
  // CHECK-NEXT: rank.run @h.forward
  rank.program @pp0 pp = 0 entry "step" {
    %0 = ps.read @v : tensor<4xf32>
    %v, %t0 = rank.start "all_gather"(%0) axes ["dp"] dims [0] queue "dp.gather" : (tensor<4xf32>) -> tensor<8xf32>
    rank.wait %t0
    rank.run @h.forward (%v) : (tensor<8xf32>) -> ()
    rank.run @k.forward () : () -> ()
    %1 = ps.read @w : tensor<4xf32>
    %w, %t1 = rank.start "all_gather"(%1) axes ["dp"] dims [0] queue "dp.gather" : (tensor<4xf32>) -> tensor<8xf32>
    %2 = ps.read @v : tensor<4xf32>
    %x, %t2 = rank.start "all_gather"(%2) axes ["dp"] dims [0] queue "dp.gather" : (tensor<4xf32>) -> tensor<8xf32>
    rank.wait %t1
    rank.wait %t2
    rank.run @h.forward (%w) : (tensor<8xf32>) -> ()
  }
}

// -----

// Twin: a gather does not move across a run that may write its variable or across a section, and
// other collectives do not move.
module attributes {ps.level = #ps.level<scheduled>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable buffer @v {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<8xf32>
  func.func @h.forward(%w: tensor<8xf32>, %v: !ps.ref<tensor<4xf32>>) attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return
  }
  // CHECK-LABEL: rank.program @pp0
  // CHECK: rank.run @h.forward
  // CHECK-NEXT: ps.read @v
  // CHECK-NEXT: rank.start "all_gather"
  // CHECK: rank.run @h.forward
  // CHECK-NEXT: rank.section "backward"
  // CHECK-NEXT: ps.read @v
  // CHECK-NEXT: rank.start "all_gather"
  // CHECK: rank.run @h.forward
  // CHECK-NEXT: ps.read @v
  // CHECK-NEXT: rank.start "all_reduce"
  rank.program @pp0 pp = 0 entry "forward" {
    %0 = ps.read @v : tensor<4xf32>
    %v, %t0 = rank.start "all_gather"(%0) axes ["dp"] dims [0] queue "dp.gather" : (tensor<4xf32>) -> tensor<8xf32>
    rank.wait %t0
    rank.run @h.forward (%v) variables [@v] : (tensor<8xf32>) -> ()
    %1 = ps.read @v : tensor<4xf32>
    %w, %t1 = rank.start "all_gather"(%1) axes ["dp"] dims [0] queue "dp.gather" : (tensor<4xf32>) -> tensor<8xf32>
    rank.wait %t1
    rank.run @h.forward (%w) variables [@v] : (tensor<8xf32>) -> ()
    rank.section "backward"
    %2 = ps.read @v : tensor<4xf32>
    %x, %t2 = rank.start "all_gather"(%2) axes ["dp"] dims [0] queue "dp.gather" : (tensor<4xf32>) -> tensor<8xf32>
    rank.wait %t2
    rank.run @h.forward (%x) variables [@v] : (tensor<8xf32>) -> ()
    %3 = ps.read @v : tensor<4xf32>
    %y, %t3 = rank.start "all_reduce"(%3) kind sum axes ["dp"] queue "dp" : (tensor<4xf32>) -> tensor<4xf32>
    rank.wait %t3
  }
}
