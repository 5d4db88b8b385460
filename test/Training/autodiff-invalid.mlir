// RUN: ps-opt %s -split-input-file -ps-autodiff -verify-diagnostics

// expected-error @below {{has no function @forward to differentiate}}
module {
}

// -----

module {
  // expected-error @below {{the model has no floating-point scalar output to use as the loss; add one with --loss cross_entropy, causal_lm or mse, or pass --loss none and give cotangents through the C API; outputs are 0 "y" : 'tensor<4xf32>'}}
  func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32> {ps.name = "y"}) {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  // expected-warning @below {{parameter 'unused.weight' gets no gradient: the loss does not depend on it; freeze the parameter to silence this warning}}
  ps.variable parameter @unused names ["unused.weight"] : tensor<4xf32>
  func.func @forward(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
}

// -----

// A mask that depends on a parameter is an error, not a missing gradient.
module {
  ps.variable parameter @mask : tensor<1x1x4x4xf32>
  func.func @forward(%q: tensor<1x1x4x2xf32>) -> tensor<f32> {
    %m = ps.read @mask : tensor<1x1x4x4xf32>
    // expected-error @below {{does not support a gradient with respect to its mask; add the mask to the scores outside the op}}
    %o, %l = ps.attention %q, %q, %q mask %m scale 1.0 : (tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>, tensor<1x1x4x4xf32>) -> (tensor<1x1x4x2xf32>, tensor<1x1x4xf32>)
    %s = ps.reduce sum %o dims [0, 1, 2, 3] : tensor<1x1x4x2xf32> -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// All inputs of a step must have the same number of samples.
module {
  // expected-error @below {{input "x" has 4 samples and input "y" has 8, but a step reads the same samples from both; give all inputs the same batch size with --batch N or --dim y.0=4, or write --batch-dim y=none if that dim is not the batch}}
  func.func @forward(%x: tensor<4xf32> {ps.name = "x"}, %y: tensor<8xf32> {ps.name = "y"}, %z: tensor<f32> {ps.name = "z"}) -> tensor<f32> {
    %s = ps.reduce sum %x dims [0] : tensor<4xf32> -> tensor<f32>
    %t = ps.reduce sum %y dims [0] : tensor<8xf32> -> tensor<f32>
    %r = ps.add %s, %t : tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

module {
  func.func @forward(%x: tensor<4xf32> {ps.name = "x"}) -> (tensor<f32> {ps.name = "loss"}) {
    %c = ps.constant dense<1.0> : tensor<f32>
    // expected-error @below {{the loss is a constant: "loss" does not depend on an input or a variable; return the loss that the model computes, or name another output with --loss-output; outputs are 0 "loss" : 'tensor<f32>'}}
    %r = ps.exp %c : tensor<f32>
    return %r : tensor<f32>
  }
}
