// Counts the flops of the contractions of a micro-batch. Forward x w costs 2 x 4 x 3 x 5 = 120, and
// so does the gradient of w. The input x has no gradient.
// RUN: ps-opt %s --ps-autodiff --ps-count-flops | FileCheck %s
// CHECK: module attributes {ps.flops = 240 : i64
// Without a backward, the flops are those of @evaluate.
// RUN: ps-opt %s --ps-autodiff="freeze=w" --ps-count-flops | FileCheck %s --check-prefix=FROZEN
// FROZEN: module attributes {ps.flops = 120 : i64
// Twin: a module without entries has no ps.flops.
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
