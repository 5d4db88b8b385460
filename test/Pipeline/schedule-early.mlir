// RUN: ps-opt %s -split-input-file "-ps-schedule=micro-batches=2 bucket-bytes=40" -ps-verify-scheduled | FileCheck %s

// Gradient reductions start during the last micro-batch. Each bucket starts after the last run that
// accumulates into one of its gradients. The update waits for a bucket before its first use.
module {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @w : tensor<4xf32>
  ps.variable gradient @w.grad of @w : tensor<4xf32>
  ps.variable parameter @v : tensor<8xf32>
  ps.variable gradient @v.grad of @v : tensor<8xf32>
  func.func @h.backward_weight(%g: !ps.ref<tensor<4xf32>>) attributes {ps.class = "h", ps.phase = #ps.phase<backward_weight>, ps.saved = 0 : i64} {
    return
  }
  func.func @k.backward_weight(%g: !ps.ref<tensor<8xf32>>) attributes {ps.class = "k", ps.phase = #ps.phase<backward_weight>, ps.saved = 0 : i64} {
    return
  }
  func.func @p.update(%g: tensor<4xf32>, %w: !ps.ref<tensor<4xf32>>) attributes {ps.class = "p", ps.phase = #ps.phase<update>, ps.saved = 0 : i64} {
    return
  }
  func.func @q.update(%g: tensor<8xf32>, %w: !ps.ref<tensor<8xf32>>) attributes {ps.class = "q", ps.phase = #ps.phase<update>, ps.saved = 0 : i64} {
    return
  }
  // CHECK-LABEL: rank.program @pp0
  // CHECK: rank.run @k.backward_weight
  // CHECK-NOT: rank.start
  // CHECK: rank.run @h.backward_weight
  // CHECK-NOT: rank.start
  // CHECK: rank.run @k.backward_weight
  // CHECK-NEXT: %[[GV:.*]] = ps.read @v.grad
  // CHECK-NEXT: %[[S:.*]], %[[U:.*]] = rank.start "all_reduce"(%[[GV]])
  // CHECK: rank.run @h.backward_weight
  // CHECK-NEXT: %[[GW:.*]] = ps.read @w.grad
  // CHECK-NEXT: %[[R:.*]], %[[T:.*]] = rank.start "all_reduce"(%[[GW]])
  // CHECK-NOT: ps.read
  // CHECK: rank.wait %[[U]]
  // CHECK-NEXT: rank.wait %[[T]]
  // CHECK-NEXT: rank.run @p.update(%[[R]])
  // CHECK-NEXT: rank.run @q.update(%[[S]])
  func.func @stage0.micro_batch(%mb: i64) attributes {ps.stage = 0 : i64} {
    rank.run @k.backward_weight () variables [@v.grad] : () -> ()
    rank.run @h.backward_weight () variables [@w.grad] : () -> ()
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
}

// -----

// Twin: a collective on a variable that the update writes starts after the write. The wait precedes
// the next write.
module {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @w : tensor<4xf32>
  func.func @h.forward(%w: !ps.ref<tensor<4xf32>>) attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return
  }
  func.func @p.update(%w: !ps.ref<tensor<4xf32>>) attributes {ps.class = "p", ps.phase = #ps.phase<update>, ps.saved = 0 : i64} {
    return
  }
  // CHECK-LABEL: rank.program @pp0
  // CHECK: rank.run @h.forward
  // CHECK-NOT: rank.start
  // CHECK: rank.run @p.update
  // CHECK: rank.start "all_reduce"
  // CHECK-NEXT: rank.wait
  // CHECK-NEXT: rank.run @p.update
  func.func @stage0.micro_batch(%mb: i64) attributes {ps.stage = 0 : i64} {
    rank.run @h.forward () variables [@w] : () -> ()
    return
  }
  func.func @stage0.update() attributes {ps.stage = 0 : i64} {
    rank.run @p.update () variables [@w] : () -> ()
    %g = ps.read @w : tensor<4xf32>
    %r = ps.all_reduce max %g over ["dp"] : tensor<4xf32>
    rank.run @p.update () variables [@w] : () -> ()
    return
  }
}
