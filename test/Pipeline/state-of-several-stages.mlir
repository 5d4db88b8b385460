// A buffer that is read before the first layer and updated after the last one cannot be split over
// stages: no stage would see what another one wrote.
// REQUIRES: ps-compile
// DEFINE: %{compile} = ps-compile %s --optimizer "sgd(lr=0.1)" --stop-after scheduled -o %t.mlir
// RUN: not %{compile} --mesh pp=2 2>&1 | FileCheck %s
// CHECK: error: {{.*}}updates "mean"{{.*}}stages 0, 1{{.*}}--split-method

// Twin: one stage holds the buffer.
// RUN: %{compile} --mesh dp=2
// RUN: FileCheck %s --check-prefix=ONE --input-file %t.mlir
// ONE: rank.run @layers.1.forward {{.*}} variables [{{.*}}@mean

!x = tensor<4x8xf32>
module {
  ps.variable buffer @mean names ["mean"] init dense<0.0> : tensor<8xf32>
  ps.variable parameter @"layers.0.weight" names ["layers.0.weight"] init dense<0.5> : tensor<8x8xf32>
  ps.variable parameter @"layers.1.weight" names ["layers.1.weight"] init dense<0.5> : tensor<8x8xf32>
  func.func @forward(%x: !x {ps.name = "x"}, %y: !x {ps.name = "y"}) -> (tensor<f32> {ps.name = "loss"}) {
    %mean = ps.read @mean : tensor<8xf32>
    %means = ps.broadcast %mean dims [1] : tensor<8xf32> -> !x
    %shifted = ps.add %x, %means : !x
    %w0 = ps.read @"layers.0.weight" : tensor<8x8xf32> loc("layers.0")
    %h0 = ps.contract %shifted [0, 1], %w0 [2, 1] -> [0, 2] : (!x, tensor<8x8xf32>) -> !x loc("layers.0")
    %a0 = ps.tanh %h0 : !x loc("layers.0")
    %w1 = ps.read @"layers.1.weight" : tensor<8x8xf32> loc("layers.1")
    %h1 = ps.contract %a0 [0, 1], %w1 [2, 1] -> [0, 2] : (!x, tensor<8x8xf32>) -> !x loc("layers.1")
    %a1 = ps.tanh %h1 : !x loc("layers.1")
    %first = ps.slice %y [0, 0] to [1, 8] by [1, 1] : !x -> tensor<1x8xf32>
    %row = ps.reshape %first : tensor<1x8xf32> -> tensor<8xf32>
    %new = ps.add %mean, %row : tensor<8xf32>
    ps.write @mean, %new : tensor<8xf32>
    %d = ps.sub %a1, %y : !x
    %square = ps.mul %d, %d : !x
    %sum = ps.reduce sum %square dims [0, 1] : !x -> tensor<f32>
    %count = ps.constant dense<32.0> : tensor<f32>
    %loss = ps.div %sum, %count : tensor<f32>
    return %loss : tensor<f32>
  }
}
