// RUN: ps-opt %s -ps-autodiff=eval-mode=true -ps-verify-training | FileCheck %s --check-prefix=EVAL
// RUN: ps-opt %s -ps-autodiff=inference=true -ps-verify-training -ps-count-flops | FileCheck %s --check-prefix=INFERENCE
// RUN: ps-opt %s -ps-autodiff -ps-verify-training -ps-count-flops | FileCheck %s --check-prefix=TRAIN

// Twin: in training mode, the step applies dropout and writes @steps. Its flops are one matmul in
// forward and one for the weight gradient.
// TRAIN: module attributes {ps.flops = 128 : i64
// TRAIN-LABEL: func.func @micro_batch
// TRAIN: ps.write @steps
// TRAIN: ps.dropout {{.*}} p 5.000000e-01 {ps.
// TRAIN-LABEL: func.func @evaluate

// In eval mode, a step does not apply dropout and does not write @steps.
// EVAL-LABEL: func.func @micro_batch
// EVAL-NOT: ps.write @steps
// EVAL: ps.dropout {{.*}}training = false
// EVAL: ps.accumulate @weight.grad
// EVAL-LABEL: func.func @evaluate
// EVAL-LABEL: func.func @update

// Inference has only @evaluate, which returns the sum and the count of the loss, and one matmul.
// INFERENCE: module attributes {ps.flops = 64 : i64
// INFERENCE-NOT: ps.variable gradient
// INFERENCE-NOT: @loss.sum
// INFERENCE-NOT: func.func @micro_batch
// INFERENCE: func.func @evaluate{{.*}}ps.name = "loss.sum"
// INFERENCE-NOT: func.func
module attributes {ps.level = #ps.level<imported>} {
  ps.variable parameter @weight : tensor<4x2xf32>
  ps.variable buffer @steps : tensor<i64>
  func.func @forward(%x: tensor<4x4xf32> {ps.name = "x"}) -> (tensor<f32> {ps.name = "loss"}) {
    %n = ps.read @steps : tensor<i64>
    %one = ps.constant dense<1> : tensor<i64>
    %next = ps.add %n, %one : tensor<i64>
    ps.write @steps, %next : tensor<i64>
    %w = ps.read @weight : tensor<4x2xf32>
    %h = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %d = ps.dropout %h p 0.5 {ps.key = 0 : i64} : tensor<4x2xf32>
    %q = ps.mul %d, %d : tensor<4x2xf32>
    %loss = ps.reduce sum %q dims [0, 1] : tensor<4x2xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}
