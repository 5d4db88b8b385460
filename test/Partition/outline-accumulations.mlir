// RUN: ps-opt %s -ps-outline-segments -ps-verify-partitioned | FileCheck %s

// A segment that accumulates into one variable twice adds the two values first. The first
// accumulation of a step overwrites, so a second one in the same function would lose its value. The
// accumulation of another variable is unchanged.
ps.mesh @mesh <"dp" = 2 : data>
ps.variable parameter @w : tensor<4xf32>
ps.variable parameter @v : tensor<4xf32>
ps.variable gradient @w.grad of @w : tensor<4xf32>
ps.variable gradient @v.grad of @v : tensor<4xf32>
ps.variable accumulator @loss.count : tensor<f32>

// CHECK-LABEL: func.func @{{.*}}.backward_input(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>, %[[W:[^:]*]]: !ps.ref<tensor<4xf32>>, %[[V:[^:]*]]: !ps.ref<tensor<4xf32>>)
// CHECK: %[[A:.*]] = ps.exp %[[X]]
// CHECK: %[[B:.*]] = ps.neg %[[X]]
// CHECK: %[[SUM:.*]] = ps.add %[[A]], %[[B]] {ps.phase = #ps.phase<backward_input>}
// CHECK: ps.accumulate %[[W]], %[[SUM]]
// CHECK: ps.accumulate %[[V]], %[[B]]
// CHECK-NOT: ps.accumulate
// CHECK: return
func.func @micro_batch(%x: tensor<4xf32> {ps.name = "x"}) {
  %a = ps.exp %x {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<4xf32>
  ps.accumulate @w.grad, %a {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<4xf32>
  %b = ps.neg %x {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<4xf32>
  ps.accumulate @v.grad, %b {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<4xf32>
  ps.accumulate @w.grad, %b {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<4xf32>
  return
}

// Accumulation by max reads the variable, compares and writes. Two values of one segment are
// compared first.
// CHECK-LABEL: func.func @{{.*}}.forward(
// CHECK-SAME: %[[Y:[^:]*]]: tensor<4xf32>, %[[M:[^:]*]]: !ps.ref<tensor<4xf32>>)
// CHECK: %[[A:.*]] = ps.exp %[[Y]]
// CHECK: %[[B:.*]] = ps.neg %[[Y]]
// CHECK: %[[BOTH:.*]] = ps.max %[[A]], %[[B]]
// CHECK: %[[BEFORE:.*]] = ps.read %[[M]]
// CHECK: %[[NOW:.*]] = ps.max %[[BEFORE]], %[[BOTH]]
// CHECK: ps.write %[[M]], %[[NOW]]
// CHECK-NOT: ps.accumulate
// CHECK: return
ps.variable accumulator @largest : tensor<4xf32>
func.func @evaluate(%x: tensor<4xf32> {ps.name = "x"}) {
  %a = ps.exp %x {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
  ps.accumulate @largest, %a by max {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
  %b = ps.neg %x {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
  ps.accumulate @largest, %b by max {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
  return
}
