// Trains an MLP on one rank and in each layout, and compares the outputs that a step keeps: of the
// last stage, of another stage with the samples in dim 1, of the input, and of a parameter.
// REQUIRES: ps-compile, ps-run
// DEFINE: %{flags} =
// DEFINE: %{ranks} =
// DEFINE: %{compare} = --compare %t/whole.safetensors --tolerance 1e-5
// DEFINE: %{step} = --entry step --steps 2 --micro-batches 4 --inputs %t/batches.safetensors
// DEFINE: %{plan} = ps-compile %t/1.mlir -o %t/4.mlir --stop-after scheduled --dump-dir %t --micro-batches 4
// DEFINE: %{local} = ps-run %t/3-partitioned.mlir %{step} --ranks %{ranks} %{compare}
// DEFINE: %{scheduled} = ps-run %t/4-scheduled.mlir %{step} --ranks %{ranks} %{compare}
// DEFINE: %{agrees} = %{plan} %{flags} && %{local} && %{scheduled}

// RUN: rm -rf %t && mkdir %t
// RUN: ps-run %S/inputs/vectors.mlir --outputs %t/batches.safetensors
// RUN: ps-compile %s -o %t/1.mlir --stop-after training --init "normal(0.3)" --optimizer "sgd(lr=0.1,momentum=0.9)" --keep-outputs all
// RUN: ps-run %t/1.mlir %{step} --outputs %t/whole.safetensors

// REDEFINE: %{ranks} = 2
// REDEFINE: %{flags} = --mesh dp=2
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh tp=2
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh pp=2
// RUN: %{agrees}
// RUN: FileCheck %s --input-file %t/4-scheduled.mlir
// REDEFINE: %{flags} = --mesh pp=2 --schedule zb-h1 --recompute full
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh pp=2 --num-chunks 2 --schedule interleaved
// RUN: %{agrees}
// REDEFINE: %{ranks} = 4
// REDEFINE: %{flags} = --mesh dp=2,tp=2 --zero 3
// RUN: %{agrees}

// CHECK-LABEL: rank.program @pp0 pp = 0 entry "step"
// CHECK: rank.output "turned" micro_batch 3
// CHECK-LABEL: rank.program @pp1 pp = 1 entry "step"
// CHECK: rank.output "y" micro_batch 0

!input = tensor<4x6xf32>
!hidden = tensor<4x8xf32>
module {
  ps.variable parameter @"layers.0.weight" names ["layers.0.weight"] : tensor<8x6xf32>
  ps.variable parameter @"layers.0.bias" names ["layers.0.bias"] : tensor<8xf32>
  ps.variable parameter @"layers.1.weight" names ["layers.1.weight"] : tensor<8x8xf32>
  ps.variable parameter @"layers.1.bias" names ["layers.1.bias"] : tensor<8xf32>
  ps.variable parameter @"layers.2.weight" names ["layers.2.weight"] : tensor<8x8xf32>
  ps.variable parameter @"layers.2.bias" names ["layers.2.bias"] : tensor<8xf32>
  ps.variable parameter @"layers.3.weight" names ["layers.3.weight"] : tensor<8x8xf32>
  ps.variable parameter @"layers.3.bias" names ["layers.3.bias"] : tensor<8xf32>
  func.func @forward(%x: !input {ps.name = "x"}, %target: !hidden {ps.name = "target"}) -> (tensor<f32> {ps.name = "loss"}, !hidden {ps.name = "y"}, tensor<8x4xf32> {ps.name = "turned"}, !input {ps.name = "same"}, tensor<8xf32> {ps.name = "bias"}) {
    %layers.0.w = ps.read @"layers.0.weight" : tensor<8x6xf32> loc("layers.0")
    %layers.0.y = ps.contract %x [0, 1], %layers.0.w [2, 1] -> [0, 2] : (!input, tensor<8x6xf32>) -> !hidden loc("layers.0")
    %layers.0.b = ps.read @"layers.0.bias" : tensor<8xf32> loc("layers.0")
    %layers.0.bs = ps.broadcast %layers.0.b dims [1] : tensor<8xf32> -> !hidden loc("layers.0")
    %layers.0 = ps.add %layers.0.y, %layers.0.bs : !hidden loc("layers.0")
    %layers.0.tanh = ps.tanh %layers.0 : !hidden loc("layers.0")
    %layers.1.w = ps.read @"layers.1.weight" : tensor<8x8xf32> loc("layers.1")
    %layers.1.y = ps.contract %layers.0.tanh [0, 1], %layers.1.w [2, 1] -> [0, 2] : (!hidden, tensor<8x8xf32>) -> !hidden loc("layers.1")
    %layers.1.b = ps.read @"layers.1.bias" : tensor<8xf32> loc("layers.1")
    %layers.1.bs = ps.broadcast %layers.1.b dims [1] : tensor<8xf32> -> !hidden loc("layers.1")
    %layers.1 = ps.add %layers.1.y, %layers.1.bs : !hidden loc("layers.1")
    %layers.1.tanh = ps.tanh %layers.1 : !hidden loc("layers.1")
    %layers.2.w = ps.read @"layers.2.weight" : tensor<8x8xf32> loc("layers.2")
    %layers.2.y = ps.contract %layers.1.tanh [0, 1], %layers.2.w [2, 1] -> [0, 2] : (!hidden, tensor<8x8xf32>) -> !hidden loc("layers.2")
    %layers.2.b = ps.read @"layers.2.bias" : tensor<8xf32> loc("layers.2")
    %layers.2.bs = ps.broadcast %layers.2.b dims [1] : tensor<8xf32> -> !hidden loc("layers.2")
    %layers.2 = ps.add %layers.2.y, %layers.2.bs : !hidden loc("layers.2")
    %layers.2.tanh = ps.tanh %layers.2 : !hidden loc("layers.2")
    %layers.3.w = ps.read @"layers.3.weight" : tensor<8x8xf32> loc("layers.3")
    %layers.3.y = ps.contract %layers.2.tanh [0, 1], %layers.3.w [2, 1] -> [0, 2] : (!hidden, tensor<8x8xf32>) -> !hidden loc("layers.3")
    %layers.3.b = ps.read @"layers.3.bias" : tensor<8xf32> loc("layers.3")
    %layers.3.bs = ps.broadcast %layers.3.b dims [1] : tensor<8xf32> -> !hidden loc("layers.3")
    %layers.3 = ps.add %layers.3.y, %layers.3.bs : !hidden loc("layers.3")
    %difference = ps.sub %layers.3, %target : !hidden
    %square = ps.mul %difference, %difference : !hidden
    %sum = ps.reduce sum %square dims [0, 1] : !hidden -> tensor<f32>
    %count = ps.constant dense<32.0> : tensor<f32>
    %loss = ps.div %sum, %count : tensor<f32>
    %turned = ps.transpose %layers.1.tanh [1, 0] : !hidden -> tensor<8x4xf32> loc("layers.1")
    return %loss, %layers.3, %turned, %x, %layers.0.b : tensor<f32>, !hidden, tensor<8x4xf32>, !input, tensor<8xf32>
  }
}
