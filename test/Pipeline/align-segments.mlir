// The segments of an inference entry have the numbers of the model's segments that read the same
// variables. The first segment of @decode has no counterpart.
// RUN: ps-opt %s -ps-find-segments | FileCheck %s

// CHECK-LABEL: func.func @evaluate
// CHECK:         ps.contract {{.*}}ps.segment = 0
// CHECK:         ps.contract {{.*}}ps.segment = 1
// CHECK-LABEL: func.func @decode
// CHECK:         ps.contract {{.*}}ps.segment = 0
// CHECK:         ps.contract {{.*}}ps.segment = 1
module {
  ps.variable parameter @w0 : tensor<4x4xf32>
  ps.variable parameter @w1 : tensor<4x4xf32>
  func.func @evaluate(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %a = ps.read @w0 {ps.phase = #ps.phase<evaluate>} : tensor<4x4xf32>
    %0 = ps.contract %x [0, 1], %a [2, 1] -> [0, 2] {ps.phase = #ps.phase<evaluate>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("h.0"("m.py":1:0))
    %b = ps.read @w1 {ps.phase = #ps.phase<evaluate>} : tensor<4x4xf32>
    %1 = ps.contract %0 [0, 1], %b [2, 1] -> [0, 2] {ps.phase = #ps.phase<evaluate>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("h.1"("m.py":1:0))
    return %1 : tensor<4x4xf32>
  }
  func.func @decode(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {ps.entry} {
    %0 = ps.mul %x, %x {ps.phase = #ps.phase<evaluate>} : tensor<4x4xf32> loc("mask"("m.py":1:0))
    %a = ps.read @w0 {ps.phase = #ps.phase<evaluate>} : tensor<4x4xf32>
    %1 = ps.contract %0 [0, 1], %a [2, 1] -> [0, 2] {ps.phase = #ps.phase<evaluate>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("h.0"("m.py":1:0))
    %b = ps.read @w1 {ps.phase = #ps.phase<evaluate>} : tensor<4x4xf32>
    %2 = ps.contract %1 [0, 1], %b [2, 1] -> [0, 2] {ps.phase = #ps.phase<evaluate>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("h.1"("m.py":1:0))
    return %2 : tensor<4x4xf32>
  }
}
