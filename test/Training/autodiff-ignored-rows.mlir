// RUN: ps-opt %s -split-input-file -ps-autodiff | FileCheck %s

// Rows with ignored labels do not contribute to the sum or the count.
// CHECK: ps.ignores_rows = "step+evaluate"
// CHECK-LABEL: func.func @micro_batch
module {
  ps.variable parameter @w : tensor<4x3xf32>
  func.func @forward(%y: tensor<4xi64> {ps.name = "y", ps.ignore = -100}) -> tensor<f32> {
    %w = ps.read @w : tensor<4x3xf32>
    %l, %lse = ps.cross_entropy %w, %y ignore -100 : tensor<4x3xf32>, tensor<4xi64> -> tensor<4xf32>
    %k = ps.constant dense<-100> : tensor<4xi64>
    %n = ps.compare ne %y, %k : tensor<4xi64> -> tensor<4xi1>
    %f = ps.convert %n : tensor<4xi1> -> tensor<4xf32>
    %c = ps.reduce sum %f dims [0] : tensor<4xf32> -> tensor<f32>
    %s = ps.reduce sum %l dims [0] : tensor<4xf32> -> tensor<f32>
    %m = ps.div %s, %c : tensor<f32>
    return %m : tensor<f32>
  }
}

// -----

// Twin: ignored rows count if the loss divides by the number of rows.
// CHECK-NOT: ps.ignores_rows
// CHECK-LABEL: func.func @micro_batch
module {
  ps.variable parameter @w : tensor<4x3xf32>
  func.func @forward(%y: tensor<4xi64> {ps.name = "y", ps.ignore = -100}) -> tensor<f32> {
    %w = ps.read @w : tensor<4x3xf32>
    %l, %lse = ps.cross_entropy %w, %y ignore -100 : tensor<4x3xf32>, tensor<4xi64> -> tensor<4xf32>
    %s = ps.reduce sum %l dims [0] : tensor<4xf32> -> tensor<f32>
    %k = ps.constant dense<4.0> : tensor<f32>
    %m = ps.div %s, %k : tensor<f32>
    return %m : tensor<f32>
  }
}
