// RUN: ps-opt %s -ps-outline-segments -ps-verify-partitioned | FileCheck %s

// Two equal layers share their classes; the third differs by a constant and has its own classes.
// The class `h` is named after the list in the module path.
ps.mesh @mesh <"dp" = 2 : data>
ps.variable parameter @w0 : tensor<4xf32>
ps.variable parameter @w1 : tensor<4xf32>
ps.variable parameter @w2 : tensor<4xf32>
ps.variable gradient @w0.grad of @w0 : tensor<4xf32>
ps.variable gradient @w1.grad of @w1 : tensor<4xf32>
ps.variable gradient @w2.grad of @w2 : tensor<4xf32>
ps.variable scalar @lr : tensor<f32>
ps.variable accumulator @loss.count : tensor<f32>

// The last result of forward is the value saved for backward. Backward reads the weight again.
// CHECK-LABEL: func.func @h.forward(
// CHECK-SAME: %{{[^:]*}}: tensor<4xf32>, %[[W:[^:]*]]: !ps.ref<tensor<4xf32>>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK-SAME: ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 1 : i64
// CHECK: %[[M:.*]] = ps.mul %{{.*}}, %{{.*}} {ps.phase
// CHECK: %[[E:.*]] = ps.exp %[[M]]
// CHECK: return %[[E]], %[[M]]

// CHECK-LABEL: func.func @h.1.forward(
// CHECK-SAME: ps.class = "h.1"
// CHECK: ps.constant
// CHECK: ps.add

// All layers accumulate in the same way, so they share one backward_weight class. Its name is that
// of the first layer.
// CHECK-LABEL: func.func @h.1.backward_input(
// CHECK-LABEL: func.func @h.1.backward_weight(
// CHECK: ps.accumulate %{{.*}}, %{{.*}} {ps.phase = #ps.phase<backward_weight>} : !ps.ref<tensor<4xf32>>
// CHECK-LABEL: func.func @h.backward_input(
// CHECK: ps.read %{{.*}} {ps.phase = #ps.phase<backward_input>}
// CHECK-LABEL: func.func @h.2.backward_input(
// CHECK-NOT: ps.read
func.func @micro_batch(%x: tensor<4xf32> {ps.name = "x"}) {
  %w0 = ps.read @w0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
  %w1 = ps.read @w1 {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4xf32>
  %w2 = ps.read @w2 {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64} : tensor<4xf32>
  %c = ps.constant {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64} dense<1.0> : tensor<4xf32>
  %0 = ps.mul %x, %w0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32> loc("h.0")
  %1 = ps.exp %0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32> loc("h.0")
  %2 = ps.mul %1, %w1 {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4xf32> loc("h.1")
  %3 = ps.exp %2 {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4xf32> loc("h.1")
  %4 = ps.mul %3, %w2 {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64} : tensor<4xf32> loc("h.2")
  %5 = ps.add %4, %c {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64} : tensor<4xf32> loc("h.2")
  %g2 = ps.mul %5, %w2 {ps.phase = #ps.phase<backward_input>, ps.segment = 2 : i64} : tensor<4xf32> loc("h.2")
  %d2 = ps.mul %5, %3 {ps.phase = #ps.phase<backward_weight>, ps.segment = 2 : i64} : tensor<4xf32> loc("h.2")
  ps.accumulate @w2.grad, %d2 {ps.phase = #ps.phase<backward_weight>, ps.segment = 2 : i64} : tensor<4xf32>
  %e1 = ps.mul %g2, %2 {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<4xf32> loc("h.1")
  %g1 = ps.mul %e1, %w1 {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<4xf32> loc("h.1")
  %d1 = ps.mul %e1, %1 {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : tensor<4xf32> loc("h.1")
  ps.accumulate @w1.grad, %d1 {ps.phase = #ps.phase<backward_weight>, ps.segment = 1 : i64} : tensor<4xf32>
  %e0 = ps.mul %g1, %0 {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<4xf32> loc("h.0")
  %d0 = ps.mul %e0, %x {ps.phase = #ps.phase<backward_weight>, ps.segment = 0 : i64} : tensor<4xf32> loc("h.0")
  ps.accumulate @w0.grad, %d0 {ps.phase = #ps.phase<backward_weight>, ps.segment = 0 : i64} : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @stage0.micro_batch(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32> {ps.name = "x"}, %{{.*}}: i64)
// CHECK: %[[A:.*]]:2 = rank.run @h.forward segment 0(%[[X]]) variables [@w0]
// CHECK: %[[B:.*]]:2 = rank.run @h.forward segment 1(%[[A]]#0) variables [@w1]
// CHECK: %[[C:.*]] = rank.run @h.1.forward segment 2(%[[B]]#0) variables [@w2]
// CHECK: %[[G:.*]] = rank.run @h.1.backward_input segment 2(%[[C]]) variables [@w2]
// CHECK: rank.run @h.1.backward_weight segment 2(%[[C]], %[[B]]#0) variables [@w2.grad]
// CHECK: %[[H:.*]]:2 = rank.run @h.backward_input segment 1(%[[G]], %[[B]]#1) variables [@w1]
// CHECK: rank.run @h.1.backward_weight segment 1(%[[H]]#1, %[[A]]#0) variables [@w1.grad]
// CHECK: %[[E0:.*]] = rank.run @h.2.backward_input segment 0(%[[H]]#0, %[[A]]#1) {
// CHECK: rank.run @h.1.backward_weight segment 0(%[[E0]], %[[X]]) variables [@w0.grad]

// Reductions of gradients and counts stay between runs. The scalar run comes first, and parameters
// of equal type share a class.
// CHECK-LABEL: func.func @scalars.update(
// CHECK: ps.compare
// CHECK-LABEL: func.func @parameter.update(
// CHECK-NOT: func.func @parameter.1.update(
// CHECK-LABEL: func.func @stage0.update(
// CHECK: %[[COUNT:.*]] = ps.all_reduce sum
// CHECK: %[[G0:.*]] = ps.all_reduce sum
// CHECK: %[[G1:.*]] = ps.all_reduce sum
// CHECK: %[[OK:.*]] = rank.run @scalars.update(%[[COUNT]])
// CHECK: rank.run @parameter.update(%[[G0]], %[[OK]]) variables [@lr, @w0]
// CHECK: rank.run @parameter.update(%[[G1]], %[[OK]]) variables [@lr, @w1]
func.func @update() {
  %count = ps.read @loss.count : tensor<f32>
  %all = ps.all_reduce sum %count over ["dp"] : tensor<f32>
  %zero = ps.constant dense<0.0> : tensor<f32>
  %ok = ps.compare gt %all, %zero : tensor<f32> -> tensor<i1>
  %lr = ps.read @lr : tensor<f32>
  %rate = ps.broadcast %lr dims [] : tensor<f32> -> tensor<4xf32>
  %g0 = ps.read @w0.grad : tensor<4xf32>
  %r0 = ps.all_reduce sum %g0 over ["dp"] : tensor<4xf32>
  %s0 = ps.mul %r0, %rate : tensor<4xf32>
  ps.write @w0, %s0 if %ok : tensor<4xf32>
  %g1 = ps.read @w1.grad : tensor<4xf32>
  %r1 = ps.all_reduce sum %g1 over ["dp"] : tensor<4xf32>
  %s1 = ps.mul %r1, %rate : tensor<4xf32>
  ps.write @w1, %s1 if %ok : tensor<4xf32>
  return
}

// Twin: functions that are already outlined are unchanged.
// CHECK-LABEL: func.func @done.forward
// CHECK-NEXT: %[[E:.*]] = ps.exp
// CHECK-NEXT: return %[[E]]
func.func @done.forward(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.class = "done", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
  %0 = ps.exp %x {ps.phase = #ps.phase<forward>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @stage0.other
// CHECK-NEXT: %[[R:.*]] = rank.run @done.forward segment 0
// CHECK-NEXT: return %[[R]]
func.func @stage0.other(%x: tensor<4xf32> {ps.name = "x"}) -> (tensor<4xf32> {ps.name = "y"}) attributes {ps.stage = 0 : i64} {
  %0 = rank.run @done.forward segment 0 (%x) {ps.phase = #ps.phase<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
