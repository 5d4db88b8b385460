// RUN: ps-opt %s -split-input-file -ps-autodiff | FileCheck %s

// The batch becomes the minor part of a dim, as in torch.nn.MultiheadAttention. The loss is still a
// sum over samples.
// CHECK: ps.loss_average = "sum"
// CHECK: func.func @evaluate
// CHECK-SAME: tensor<12x2xf32> {ps.batch_dim = -2 : i64
// CHECK-SAME: tensor<3x4x2xf32> {ps.batch_dim = 1 : i64
module {
  ps.variable parameter @w : tensor<12x2xf32>
  func.func @forward(%x: tensor<4x3x2xf32> {ps.name = "x"})
      -> (tensor<f32>, tensor<12x2xf32>, tensor<3x4x2xf32>) {
    %c = ps.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %t = ps.transpose %x [1, 0, 2] : tensor<4x3x2xf32> -> tensor<3x4x2xf32>
    %r = ps.reshape %t : tensor<3x4x2xf32> -> tensor<12x2xf32>
    %w = ps.read @w : tensor<12x2xf32>
    %q = ps.mul %w, %r : tensor<12x2xf32>
    // The factor depends on the position but not on the sample.
    %b = ps.broadcast %c dims [0] : tensor<3xf32> -> tensor<3x4x2xf32>
    %d = ps.reshape %b : tensor<3x4x2xf32> -> tensor<12x2xf32>
    %p = ps.mul %q, %d : tensor<12x2xf32>
    %u = ps.reshape %p : tensor<12x2xf32> -> tensor<3x4x2xf32>
    %s = ps.reduce sum %u dims [0, 1, 2] : tensor<3x4x2xf32> -> tensor<f32>
    return %s, %p, %u : tensor<f32>, tensor<12x2xf32>, tensor<3x4x2xf32>
  }
}

// -----

// The factor depends on the index of the sample in its batch.
// CHECK: ps.loss_average = "micro-batch"
module {
  ps.variable parameter @w : tensor<12x2xf32>
  func.func @forward(%x: tensor<4x3x2xf32> {ps.name = "x"}) -> tensor<f32> {
    %c = ps.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %t = ps.transpose %x [1, 0, 2] : tensor<4x3x2xf32> -> tensor<3x4x2xf32>
    %r = ps.reshape %t : tensor<3x4x2xf32> -> tensor<12x2xf32>
    %w = ps.read @w : tensor<12x2xf32>
    %q = ps.mul %w, %r : tensor<12x2xf32>
    %b = ps.broadcast %c dims [1] : tensor<4xf32> -> tensor<3x4x2xf32>
    %d = ps.reshape %b : tensor<3x4x2xf32> -> tensor<12x2xf32>
    %p = ps.mul %q, %d : tensor<12x2xf32>
    %s = ps.reduce sum %p dims [0, 1] : tensor<12x2xf32> -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// A sum over a part of the merged dim that splits samples is not a sum over samples.
// CHECK: ps.loss_average = "micro-batch"
module {
  ps.variable parameter @w : tensor<12x2xf32>
  func.func @forward(%x: tensor<4x3x2xf32> {ps.name = "x"}) -> tensor<f32> {
    %t = ps.transpose %x [1, 0, 2] : tensor<4x3x2xf32> -> tensor<3x4x2xf32>
    %r = ps.reshape %t : tensor<3x4x2xf32> -> tensor<12x2xf32>
    %w = ps.read @w : tensor<12x2xf32>
    %q = ps.mul %w, %r : tensor<12x2xf32>
    %u = ps.reshape %q : tensor<12x2xf32> -> tensor<6x2x2xf32>
    %k = ps.reduce sum %u dims [0] : tensor<6x2x2xf32> -> tensor<2x2xf32>
    %v = ps.mul %k, %k : tensor<2x2xf32>
    %s = ps.reduce sum %v dims [0, 1] : tensor<2x2xf32> -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// A softmax over the batch mixes samples, although its dim may be split over devices.
// CHECK: ps.loss_average = "micro-batch"
// CHECK: func.func @evaluate
// CHECK-SAME: tensor<4xf32> {ps.batch_dim = -2 : i64
module {
  ps.variable parameter @w : tensor<4xf32>
  func.func @forward(%x: tensor<4xf32> {ps.name = "x"}) -> (tensor<f32>, tensor<4xf32>) {
    %w = ps.read @w : tensor<4xf32>
    %q = ps.mul %w, %x : tensor<4xf32>
    %m = ps.softmax %q : tensor<4xf32>
    %p = ps.mul %m, %q : tensor<4xf32>
    %s = ps.reduce sum %p dims [0] : tensor<4xf32> -> tensor<f32>
    return %s, %m : tensor<f32>, tensor<4xf32>
  }
}
