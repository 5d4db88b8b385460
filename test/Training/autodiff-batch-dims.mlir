// RUN: ps-opt %s -ps-autodiff | FileCheck %s --check-prefix=FIRST
// RUN: ps-opt %s "-ps-autodiff=batch-dims=x=1" | FileCheck %s --check-prefix=SECOND
// RUN: ps-opt %s "-ps-autodiff=batch-dims=x=none" | FileCheck %s --check-prefix=NONE
// RUN: ps-opt %s "-ps-autodiff=batch-dims=none" | FileCheck %s --check-prefix=NONE
// RUN: not ps-opt %s "-ps-autodiff=batch-dims=y=1" 2>&1 | FileCheck %s --check-prefix=INPUT
// INPUT: error: --batch-dim y: the model has no such input
// RUN: not ps-opt %s "-ps-autodiff=batch-dims=x=-1" 2>&1 | FileCheck %s --check-prefix=FORM
// FORM: error: --batch-dim x=-1: expected INPUT=D, INPUT=none or none

// A sum over dim 0 of a mean over dim 1 is a sum over samples only if dim 0 is the batch.
// FIRST: ps.loss_average = "sum"
// SECOND: ps.loss_average = "micro-batch"
// SECOND: func.func @micro_batch(%{{.*}}: tensor<8x4xf32> {ps.batch_dim = 1 : i64
// NONE: ps.loss_average = "micro-batch"
module {
  ps.variable parameter @w : tensor<8x4xf32>
  func.func @forward(%x: tensor<8x4xf32> {ps.name = "x"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8x4xf32>
    %q = ps.mul %w, %x : tensor<8x4xf32>
    %t = ps.reduce sum %q dims [1] : tensor<8x4xf32> -> tensor<8xf32>
    %k = ps.constant dense<0.25> : tensor<8xf32>
    %m = ps.mul %t, %k : tensor<8xf32>
    %s = ps.reduce sum %m dims [0] : tensor<8xf32> -> tensor<f32>
    return %s : tensor<f32>
  }
}
