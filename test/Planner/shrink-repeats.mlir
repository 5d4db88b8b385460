// RUN: ps-opt %s -split-input-file -ps-shrink-repeats | FileCheck %s

// The first segment has an additional op, so only the other three layers are equal. Two of them
// remain. The head then reads the result of the second one.
// CHECK: module attributes {ps.repeats = {count = 1 : i64, parameter = "layers.2.w"}}
// CHECK-COUNT-3: ps.variable parameter
// CHECK-NOT: ps.variable
// CHECK: %[[W0:.*]] = ps.read @layers.0.w
// CHECK: %[[W1:.*]] = ps.read @layers.1.w
// CHECK: %[[W2:.*]] = ps.read @layers.2.w
// CHECK: %[[A:.*]] = ps.exp
// CHECK: %[[B:.*]] = ps.mul %[[A]], %[[W0]]
// CHECK: %[[C:.*]] = ps.mul %[[B]], %[[W1]]
// CHECK: %[[D:.*]] = ps.mul %[[C]], %[[W2]]
// CHECK: ps.log %[[D]]
module {
  ps.variable parameter @layers.0.w names ["layers.0.w"] : tensor<4xf32>
  ps.variable parameter @layers.1.w names ["layers.1.w"] : tensor<4xf32>
  ps.variable parameter @layers.2.w names ["layers.2.w"] : tensor<4xf32>
  ps.variable parameter @layers.3.w names ["layers.3.w"] : tensor<4xf32>
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %w0 = ps.read @layers.0.w : tensor<4xf32>
    %w1 = ps.read @layers.1.w : tensor<4xf32>
    %w2 = ps.read @layers.2.w : tensor<4xf32>
    %w3 = ps.read @layers.3.w : tensor<4xf32>
    %0 = ps.exp %x : tensor<4xf32> loc("embed")
    %1 = ps.mul %0, %w0 : tensor<4xf32> loc("m.layers.0")
    %2 = ps.mul %1, %w1 : tensor<4xf32> loc("m.layers.1")
    %3 = ps.mul %2, %w2 : tensor<4xf32> loc("m.layers.2")
    %4 = ps.mul %3, %w3 : tensor<4xf32> loc("m.layers.3")
    %5 = ps.log %4 : tensor<4xf32> loc("head")
    return %5 : tensor<4xf32>
  }
}

// -----

// Twin: the third layer differs, so only two layers in a row are equal.
// CHECK: module {
// CHECK-COUNT-4: ps.mul
module {
  ps.variable parameter @layers.0.w names ["layers.0.w"] : tensor<4xf32>
  ps.variable parameter @layers.1.w names ["layers.1.w"] : tensor<4xf32>
  ps.variable parameter @layers.3.w names ["layers.3.w"] : tensor<4xf32>
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %w0 = ps.read @layers.0.w : tensor<4xf32>
    %w1 = ps.read @layers.1.w : tensor<4xf32>
    %w3 = ps.read @layers.3.w : tensor<4xf32>
    %1 = ps.mul %x, %w0 : tensor<4xf32> loc("m.layers.0")
    %2 = ps.mul %1, %w1 : tensor<4xf32> loc("m.layers.1")
    %3 = ps.mul %2, %2 : tensor<4xf32> loc("m.layers.2")
    %4 = ps.mul %3, %w3 : tensor<4xf32> loc("m.layers.3")
    return %4 : tensor<4xf32>
  }
}

// -----

// Twin: the head also reads the second layer of four, so no layer is removed.
// CHECK: module {
// CHECK-COUNT-4: ps.mul
module {
  ps.variable parameter @layers.0.w names ["layers.0.w"] : tensor<4xf32>
  ps.variable parameter @layers.1.w names ["layers.1.w"] : tensor<4xf32>
  ps.variable parameter @layers.2.w names ["layers.2.w"] : tensor<4xf32>
  ps.variable parameter @layers.3.w names ["layers.3.w"] : tensor<4xf32>
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %w0 = ps.read @layers.0.w : tensor<4xf32>
    %w1 = ps.read @layers.1.w : tensor<4xf32>
    %w2 = ps.read @layers.2.w : tensor<4xf32>
    %w3 = ps.read @layers.3.w : tensor<4xf32>
    %1 = ps.mul %x, %w0 : tensor<4xf32> loc("m.layers.0")
    %2 = ps.mul %1, %w1 : tensor<4xf32> loc("m.layers.1")
    %3 = ps.mul %2, %w2 : tensor<4xf32> loc("m.layers.2")
    %4 = ps.mul %3, %w3 : tensor<4xf32> loc("m.layers.3")
    %5 = ps.add %4, %2 : tensor<4xf32> loc("head")
    return %5 : tensor<4xf32>
  }
}

// -----

// Each dropout has its own key.
// CHECK: module attributes {ps.repeats = {count = 1 : i64, parameter = "layers.1.w"}}
// CHECK-COUNT-2: ps.dropout
// CHECK-NOT: ps.dropout
module {
  ps.variable parameter @layers.0.w names ["layers.0.w"] : tensor<4xf32>
  ps.variable parameter @layers.1.w names ["layers.1.w"] : tensor<4xf32>
  ps.variable parameter @layers.2.w names ["layers.2.w"] : tensor<4xf32>
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %w0 = ps.read @layers.0.w : tensor<4xf32>
    %w1 = ps.read @layers.1.w : tensor<4xf32>
    %w2 = ps.read @layers.2.w : tensor<4xf32>
    %0 = ps.mul %x, %w0 : tensor<4xf32> loc("m.layers.0")
    %1 = ps.dropout %0 p 1.000000e-01 {ps.key = 0 : i64} : tensor<4xf32> loc("m.layers.0")
    %2 = ps.mul %1, %w1 : tensor<4xf32> loc("m.layers.1")
    %3 = ps.dropout %2 p 1.000000e-01 {ps.key = 1 : i64} : tensor<4xf32> loc("m.layers.1")
    %4 = ps.mul %3, %w2 : tensor<4xf32> loc("m.layers.2")
    %5 = ps.dropout %4 p 1.000000e-01 {ps.key = 2 : i64} : tensor<4xf32> loc("m.layers.2")
    return %5 : tensor<4xf32>
  }
}
