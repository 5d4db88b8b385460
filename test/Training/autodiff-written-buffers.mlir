// RUN: ps-opt %s -ps-autodiff -verify-diagnostics

// In eval mode PyTorch reads @r; the exported model writes it first.
module {
  ps.variable parameter @w : tensor<f32>
  ps.variable buffer @r names ["stats.r"] : tensor<f32>
  ps.variable buffer @after : tensor<f32>
  func.func @forward(%x: tensor<4xf32> {ps.name = "x"}) -> tensor<f32> {
    %w = ps.read @w : tensor<f32>
    %m = ps.reduce sum %x dims [0] : tensor<4xf32> -> tensor<f32>
    %r = ps.read @r : tensor<f32>
    %n = ps.add %r, %m : tensor<f32>
    // expected-warning @below {{'stats.r' is used after the model writes it here: an evaluation uses the value that its own batch would write}}
    ps.write @r, %n : tensor<f32>
    %p = ps.mul %w, %n : tensor<f32>
    // The model reads @after before it writes @after.
    %a = ps.read @after : tensor<f32>
    %l = ps.mul %p, %a : tensor<f32>
    %b = ps.add %a, %m : tensor<f32>
    ps.write @after, %b : tensor<f32>
    return %l : tensor<f32>
  }
}
