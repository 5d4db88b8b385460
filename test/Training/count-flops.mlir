// What the contractions of a micro-batch cost, forward and backward: x w is 2 x 4 x 3 x 5, as is w's gradient; x has none.
// RUN: ps-opt %s --ps-autodiff --ps-count-flops | FileCheck %s
// CHECK: module attributes {ps.flops = 240 : i64
// Without a backward, those of @evaluate.
// RUN: ps-opt %s --ps-autodiff="freeze=w" --ps-count-flops | FileCheck %s --check-prefix=FROZEN
// FROZEN: module attributes {ps.flops = 120 : i64
// Twin: a module without entries is not marked.
// RUN: ps-opt %s --ps-count-flops | FileCheck %s --check-prefix=NONE
// NONE-NOT: ps.flops
module {
  ps.variable parameter @w : tensor<3x5xf32>
  func.func @forward(%x: tensor<4x3xf32> {ps.name = "x"}) -> tensor<f32> {
    %w = ps.read @w : tensor<3x5xf32>
    %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
    %s = ps.reduce sum %y dims [0, 1] : tensor<4x5xf32> -> tensor<f32>
    return %s : tensor<f32>
  }
}
