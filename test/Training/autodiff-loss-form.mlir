// RUN: ps-opt %s -split-input-file -ps-autodiff | FileCheck %s

// A sum times a constant is a mean over a static count.
// CHECK: ps.loss_average = "step"
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[SUM:.*]] = ps.reduce sum
// CHECK: %[[COUNT:.*]] = ps.constant {{.*}}dense<8.000000e+00>
// CHECK: ps.accumulate @loss.sum, %[[SUM]]
// CHECK: ps.accumulate @loss.count, %[[COUNT]]
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward() -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %w : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %k = ps.constant dense<0.125> : tensor<f32>
    %l = ps.mul %s, %k : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// The mean of what counts with a further term: an average over micro-batches, which is not that of the whole batch.
// CHECK: ps.loss_average = "micro-batch", ps.uneven_loss
// CHECK-LABEL: func.func @micro_batch
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward(%m: tensor<8xf32> {ps.name = "m"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %m : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %c = ps.reduce sum %m dims [0] : tensor<8xf32> -> tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    %t = ps.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    %r = ps.add %l, %t : tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

// The twin: a mean over a static count with a further term is the same either way.
// CHECK-NOT: ps.uneven_loss
// CHECK: ps.loss_average = "micro-batch"
// CHECK-NOT: ps.uneven_loss
// CHECK-LABEL: func.func @micro_batch
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward(%m: tensor<8xf32> {ps.name = "m"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %m : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %c = ps.constant dense<8.0> : tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    %t = ps.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    %r = ps.add %l, %t : tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

// The twin: a count that depends on a variable, and any other loss, is averaged over micro-batches.
// CHECK: ps.loss_average = "micro-batch"
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[LOSS:.*]] = ps.div
// CHECK: %[[ONE:.*]] = ps.constant {{.*}}dense<1.000000e+00>
// CHECK: ps.accumulate @loss.sum, %[[LOSS]]
// CHECK: ps.accumulate @loss.count, %[[ONE]]
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward() -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %w : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %c = ps.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    return %l : tensor<f32>
  }
}
