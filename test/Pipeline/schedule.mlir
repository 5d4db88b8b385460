// RUN: ps-opt %s -split-input-file "-ps-schedule=micro-batches=2 bucket-bytes=40" -ps-verify-scheduled | FileCheck %s

// Two micro-batches, then the update. Reductions start in buckets of at most 40 bytes, and each
// wait precedes the first use of a result.
module {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @w : tensor<4xf32>
  ps.variable gradient @w.grad of @w : tensor<4xf32>
  ps.variable parameter @v : tensor<8xf32>
  ps.variable gradient @v.grad of @v : tensor<8xf32>
  func.func @h.forward(%x: tensor<4xf32>, %k: i64, %mb: i64) -> tensor<4xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return %x : tensor<4xf32>
  }
  func.func @p.update(%g: tensor<4xf32>, %w: !ps.ref<tensor<4xf32>>) attributes {ps.class = "p", ps.phase = #ps.phase<update>, ps.saved = 0 : i64} {
    return
  }
  func.func @q.update(%g: tensor<8xf32>, %w: !ps.ref<tensor<8xf32>>) attributes {ps.class = "q", ps.phase = #ps.phase<update>, ps.saved = 0 : i64} {
    return
  }
  // CHECK-NOT: func.func @stage0
  // CHECK-LABEL: rank.program @pp0 pp = 0 entry "step"
  // CHECK: %[[MB0:.*]] = arith.constant 0 : i64
  // CHECK: %[[X0:.*]] = rank.input "x" micro_batch 0 : tensor<4xf32> of tensor<8xf32> as <@mesh, [{"dp"}]>
  // CHECK: rank.run @h.forward segment 0 micro_batch %[[MB0]](%[[X0]]) keys [5]
  // CHECK: %[[MB1:.*]] = arith.constant 1 : i64
  // CHECK: %[[X1:.*]] = rank.input "x" micro_batch 1
  // CHECK: rank.run @h.forward segment 0 micro_batch %[[MB1]](%[[X1]]) keys [5]
  // CHECK: %[[GW:.*]] = ps.read @w.grad
  // CHECK: %[[GV:.*]] = ps.read @v.grad
  // CHECK: %[[R:.*]], %[[T:.*]] = rank.start "all_reduce"(%[[GW]]) kind sum axes ["dp"] queue "dp"
  // CHECK: %[[S:.*]], %[[U:.*]] = rank.start "all_reduce"(%[[GV]]) kind sum axes ["dp"] queue "dp"
  // CHECK: rank.wait %[[T]]
  // CHECK: rank.run @p.update(%[[R]])
  // CHECK: rank.wait %[[U]]
  // CHECK: rank.run @q.update(%[[S]])
  func.func @stage0.micro_batch(%x: tensor<4xf32> {ps.name = "x", ps.global = tensor<8xf32>, ps.sharding = #ps.sharding<@mesh, [{"dp"}]>}, %mb: i64) attributes {ps.stage = 0 : i64} {
    %0 = rank.run @h.forward segment 0 micro_batch %mb (%x) keys [5] : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
  func.func @stage0.update() attributes {ps.stage = 0 : i64} {
    %g = ps.read @w.grad : tensor<4xf32>
    %r = ps.all_reduce sum %g over ["dp"] : tensor<4xf32>
    %h = ps.read @v.grad : tensor<8xf32>
    %s = ps.all_reduce sum %h over ["dp"] : tensor<8xf32>
    rank.run @p.update (%r) variables [@w] : (tensor<4xf32>) -> ()
    rank.run @q.update (%s) variables [@v] : (tensor<8xf32>) -> ()
    return
  }
  // CHECK-LABEL: rank.program @evaluate.pp0 pp = 0 entry "evaluate"
  // CHECK: %[[X:.*]] = rank.input "x" micro_batch 0 : tensor<4xf32>
  // CHECK: rank.output "y" micro_batch 0 %[[X]] : tensor<4xf32>
  func.func @stage0.evaluate(%x: tensor<4xf32> {ps.name = "x"}) -> (tensor<4xf32> {ps.name = "y"}) attributes {ps.stage = 0 : i64} {
    return %x : tensor<4xf32>
  }
}

// -----

// @count computes the count of a step from the inputs before the first micro-batch. The host cannot
// call @count as an entry.
module {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable accumulator @loss.count : tensor<f32>
  func.func @count.forward(%x: tensor<4xf32>, %c: !ps.ref<tensor<f32>>) attributes {ps.class = "count", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return
  }
  func.func @h.forward(%x: tensor<4xf32>, %c: !ps.ref<tensor<f32>>) attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return
  }
  // CHECK-LABEL: rank.program @pp0 pp = 0 entry "step"
  // CHECK-NEXT: %[[X0:.*]] = rank.input "x" micro_batch 0
  // CHECK-NEXT: rank.run @count.forward(%[[X0]])
  // CHECK-NEXT: %[[X1:.*]] = rank.input "x" micro_batch 1
  // CHECK-NEXT: rank.run @count.forward(%[[X1]])
  // CHECK-NEXT: rank.run @h.forward segment 0(%[[X0]])
  // CHECK-NEXT: rank.run @h.forward segment 0(%[[X1]])
  // CHECK-NEXT: {{^ *}$}}
  // CHECK-NOT: rank.program
  func.func @stage0.count(%x: tensor<4xf32> {ps.name = "x", ps.global = tensor<8xf32>, ps.sharding = #ps.sharding<@mesh, [{"dp"}]>}) attributes {ps.stage = 0 : i64} {
    rank.run @count.forward (%x) variables [@loss.count] : (tensor<4xf32>) -> ()
    return
  }
  func.func @stage0.micro_batch(%x: tensor<4xf32> {ps.name = "x", ps.global = tensor<8xf32>, ps.sharding = #ps.sharding<@mesh, [{"dp"}]>}, %mb: i64) attributes {ps.stage = 0 : i64} {
    rank.run @h.forward segment 0 (%x) variables [@loss.count] : (tensor<4xf32>) -> ()
    return
  }
}

// -----

// The host provides the cotangents: forward, backward and update are separate calls.
module {
  func.func @h.forward(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return %x : tensor<4xf32>
  }
  func.func @h.backward_input(%x: tensor<4xf32>, %y: tensor<4xf32>) attributes {ps.class = "h", ps.phase = #ps.phase<backward_input>, ps.saved = 0 : i64} {
    return
  }
  // CHECK-LABEL: rank.program @pp0 pp = 0 entry "forward"
  // CHECK: %[[Y:.*]] = rank.run @h.forward
  // CHECK: rank.output "y" micro_batch 0 %[[Y]]
  // CHECK: rank.section "backward"
  // CHECK: %[[D:.*]] = rank.input "y.cotangent" micro_batch 0 {ps.cotangent = "y"} : tensor<4xf32>
  // CHECK: rank.run @h.backward_input segment 0(%[[D]], %[[Y]])
  // CHECK: rank.section "update"
  func.func @stage0.micro_batch(%x: tensor<4xf32> {ps.name = "x"}, %d: tensor<4xf32> {ps.name = "y.cotangent", ps.cotangent = "y"}, %mb: i64) -> (tensor<4xf32> {ps.name = "y"}) attributes {ps.stage = 0 : i64} {
    %0 = rank.run @h.forward segment 0 (%x) {ps.phase = #ps.phase<forward>} : (tensor<4xf32>) -> tensor<4xf32>
    rank.run @h.backward_input segment 0 (%d, %0) {ps.phase = #ps.phase<backward_input>} : (tensor<4xf32>, tensor<4xf32>) -> ()
    return %0 : tensor<4xf32>
  }
}

// -----

// Twin: without stage functions there is nothing to schedule, and class functions are unchanged.
module {
  // CHECK-LABEL: func.func @only.forward
  // CHECK-NEXT: ps.exp
  // CHECK-NEXT: return
  // CHECK-NOT: rank.program
  func.func @only.forward(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.class = "only", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    %0 = ps.exp %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
