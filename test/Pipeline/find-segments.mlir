// RUN: ps-opt %s -split-input-file -ps-find-segments | FileCheck %s

// Segments by module path: embedding, two layers of the list `h`, head. A constant belongs to the
// segment of its first user.
// CHECK-LABEL: func.func @by_module_path
func.func @by_module_path(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: ps.constant {ps.segment = 1 : i64}
  %c = ps.constant dense<2.0> : tensor<4xf32>
  // CHECK: ps.exp %{{.*}} {ps.segment = 0 : i64}
  %0 = ps.exp %x : tensor<4xf32> loc("embed")
  // CHECK: ps.mul %{{.*}} {ps.segment = 1 : i64}
  %1 = ps.mul %0, %c : tensor<4xf32> loc("model.h.0.mlp")
  // CHECK: ps.relu %{{.*}} {ps.segment = 1 : i64}
  %2 = ps.relu %1 : tensor<4xf32> loc("model.h.0")
  // CHECK: ps.mul %{{.*}} {ps.segment = 2 : i64}
  %3 = ps.mul %2, %c : tensor<4xf32> loc("model.h.1.mlp")
  // CHECK: ps.relu %{{.*}} {ps.segment = 2 : i64}
  %4 = ps.relu %3 : tensor<4xf32> loc("model.h.1")
  // CHECK: ps.log %{{.*}} {ps.segment = 3 : i64}
  %5 = ps.log %4 : tensor<4xf32> loc("head")
  return %5 : tensor<4xf32>
}

// -----

// Twin: without lists or repetition there is one segment.
// CHECK-LABEL: func.func @one_segment
func.func @one_segment(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-COUNT-3: ps.segment = 0 : i64
  %0 = ps.exp %x : tensor<4xf32> loc("a")
  %1 = ps.relu %0 : tensor<4xf32> loc("b")
  %2 = ps.log %1 : tensor<4xf32> loc("c")
  return %2 : tensor<4xf32>
}

// -----

// Without module paths, the repeated sequence of ops is one layer.
// CHECK-LABEL: func.func @by_repetition
func.func @by_repetition(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: ps.neg %{{.*}} {ps.segment = 0 : i64}
  %0 = ps.neg %x : tensor<4xf32> loc(unknown)
  // CHECK-COUNT-4: ps.segment = 1 : i64
  %1 = ps.exp %0 : tensor<4xf32> loc(unknown)
  %2 = ps.relu %1 : tensor<4xf32> loc(unknown)
  %3 = ps.tanh %2 : tensor<4xf32> loc(unknown)
  %4 = ps.add %3, %0 : tensor<4xf32> loc(unknown)
  // CHECK-COUNT-4: ps.segment = 2 : i64
  %5 = ps.exp %4 : tensor<4xf32> loc(unknown)
  %6 = ps.relu %5 : tensor<4xf32> loc(unknown)
  %7 = ps.tanh %6 : tensor<4xf32> loc(unknown)
  %8 = ps.add %7, %4 : tensor<4xf32> loc(unknown)
  // CHECK: ps.log %{{.*}} {ps.segment = 3 : i64}
  %9 = ps.log %8 : tensor<4xf32> loc(unknown)
  return %9 : tensor<4xf32>
}

// -----

// Dataflow takes precedence over the path: a user of a value of layer 1 cannot run in layer 0.
// CHECK-LABEL: func.func @dataflow_decides
func.func @dataflow_decides(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: ps.exp %{{.*}} {ps.segment = 0 : i64}
  %0 = ps.exp %x : tensor<4xf32> loc("h.0")
  // CHECK: ps.relu %{{.*}} {ps.segment = 1 : i64}
  %1 = ps.relu %0 : tensor<4xf32> loc("h.1")
  // CHECK: ps.add %{{.*}} {ps.segment = 1 : i64}
  %2 = ps.add %0, %1 : tensor<4xf32> loc("h.0")
  return %2 : tensor<4xf32>
}

// -----

// Backward ops belong to the segment of their origin, the index of a forward op. The sum of
// cotangents from a later segment belongs to the later segment.
// CHECK-LABEL: func.func @micro_batch
func.func @micro_batch(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: ps.exp %{{.*}} {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64}
  %0 = ps.exp %x {ps.phase = #ps.phase<forward>} : tensor<4xf32> loc("h.0")
  // CHECK: ps.tanh %{{.*}} {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64}
  %1 = ps.tanh %0 {ps.phase = #ps.phase<forward>} : tensor<4xf32> loc("h.1")
  // CHECK: ps.mul %{{.*}} {{{.*}}ps.segment = 1 : i64}
  %2 = ps.mul %1, %0 {ps.phase = #ps.phase<forward>} : tensor<4xf32> loc("h.1")
  // CHECK: ps.mul %{{.*}} {{{.*}}ps.segment = 1 : i64}
  %g1 = ps.mul %2, %0 {ps.phase = #ps.phase<backward_input>, ps.origin = 2 : i64} : tensor<4xf32> loc("h.1")
  // CHECK: ps.mul %{{.*}} {{{.*}}ps.segment = 1 : i64}
  %g2 = ps.mul %g1, %1 {ps.phase = #ps.phase<backward_input>, ps.origin = 1 : i64} : tensor<4xf32> loc("h.1")
  // CHECK: ps.add %{{.*}} {{{.*}}ps.segment = 1 : i64}
  %s = ps.add %g1, %g2 {ps.phase = #ps.phase<backward_input>, ps.origin = 0 : i64} : tensor<4xf32> loc("h.0")
  // CHECK: ps.mul %{{.*}} {{{.*}}ps.segment = 0 : i64}
  %g3 = ps.mul %s, %0 {ps.phase = #ps.phase<backward_input>, ps.origin = 0 : i64} : tensor<4xf32> loc("h.0")
  return %g3 : tensor<4xf32>
}
