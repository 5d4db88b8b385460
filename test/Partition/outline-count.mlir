// RUN: ps-opt %s -ps-outline-segments | FileCheck %s

// @count becomes one run of its own class, whatever the segments of its ops. Segment 0 keeps its
// name.
ps.variable accumulator @loss.count : tensor<f32>
ps.variable accumulator @loss.micro_batches : tensor<f32>

// CHECK-LABEL: func.func @count.forward(
// CHECK-SAME: %[[M:[^:]*]]: tensor<4xf32>, %[[C:[^:]*]]: !ps.ref<tensor<f32>>, %[[N:[^:]*]]: !ps.ref<tensor<f32>>)
// CHECK: ps.accumulate %[[C]]
// CHECK: ps.accumulate %[[N]]
// CHECK-LABEL: func.func @stage0.count
// CHECK-NEXT: rank.run @count.forward(%{{.*}}) variables [@loss.count, @loss.micro_batches] {
// CHECK-NEXT: return
func.func @count(%m: tensor<4xf32> {ps.name = "m"}) {
  %a = ps.exp %m {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32> loc("h.0")
  %c = ps.reduce sum %a dims [0] {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4xf32> -> tensor<f32> loc("h.1")
  ps.accumulate @loss.count, %c {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<f32> loc("h.1")
  %one = ps.constant {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} dense<1.0> : tensor<f32>
  ps.accumulate @loss.micro_batches, %one {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<f32>
  return
}

// CHECK-LABEL: func.func @h.evaluate(
// CHECK: rank.run @h.evaluate segment 0
func.func @evaluate(%x: tensor<4xf32> {ps.name = "x"}) -> (tensor<4xf32> {ps.name = "y"}) {
  %0 = ps.exp %x {ps.phase = #ps.phase<evaluate>, ps.segment = 0 : i64} : tensor<4xf32> loc("h.0")
  return %0 : tensor<4xf32>
}
