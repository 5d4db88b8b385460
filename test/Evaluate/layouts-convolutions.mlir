// Trains two convolutions and a linear layer on one rank and in each layout.
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
// RUN: ps-run %S/inputs/images.mlir --outputs %t/batches.safetensors
// RUN: ps-compile %s -o %t/1.mlir --stop-after training --init "normal(0.3)" --optimizer "sgd(lr=0.1,momentum=0.9)"
// RUN: ps-run %t/1.mlir %{step} --outputs %t/whole.safetensors

// REDEFINE: %{ranks} = 2
// REDEFINE: %{flags} = --mesh dp=2
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2 --zero 3
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh pp=2
// RUN: %{agrees}
// REDEFINE: %{ranks} = 4
// REDEFINE: %{flags} = --mesh dp=4 --recompute full
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2,pp=2 --zero 2
// RUN: %{agrees}

// The channels between the convolutions are split, so the second convolution computes partial sums.
// REDEFINE: %{ranks} = 2
// REDEFINE: %{flags} = --mesh tp=2 --sharding-policy %S/inputs/channels.json
// RUN: %{agrees}
// RUN: FileCheck %s --check-prefix=CHANNELS --input-file %t/3-partitioned.mlir
// REDEFINE: %{ranks} = 4
// REDEFINE: %{flags} = --mesh tp=4 --sharding-policy %S/inputs/channels.json
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2,tp=2 --zero 1 --sharding-policy %S/inputs/channels.json
// RUN: %{agrees}

// CHANNELS: ps.convolution {{.*}} tensor<3x2x3x3xf32>
// CHANNELS: ps.all_reduce sum {{.*}} over ["tp"]

!image = tensor<4x2x6x6xf32>
!wide = tensor<4x6x6x6xf32>
!pooled = tensor<4x6x3x3xf32>
!maps = tensor<4x4x3x3xf32>
module {
  ps.variable parameter @"layers.0.weight" names ["layers.0.weight"] : tensor<6x2x3x3xf32>
  ps.variable parameter @"layers.0.bias" names ["layers.0.bias"] : tensor<6xf32>
  ps.variable parameter @"layers.1.weight" names ["layers.1.weight"] : tensor<4x6x3x3xf32>
  ps.variable parameter @"layers.1.bias" names ["layers.1.bias"] : tensor<4xf32>
  ps.variable parameter @"head.weight" names ["head.weight"] : tensor<5x36xf32>
  ps.variable parameter @"head.bias" names ["head.bias"] : tensor<5xf32>
  func.func @forward(%x: !image {ps.name = "x"}, %labels: tensor<4xi64> {ps.name = "labels"}) -> (tensor<f32> {ps.name = "loss"}) {
    %layers.0.w = ps.read @"layers.0.weight" : tensor<6x2x3x3xf32> loc("layers.0")
    %layers.0.y = ps.convolution %x, %layers.0.w by [1, 1] low [1, 1] dilation [1, 1] : (!image, tensor<6x2x3x3xf32>) -> !wide loc("layers.0")
    %layers.0.b = ps.read @"layers.0.bias" : tensor<6xf32> loc("layers.0")
    %layers.0.bs = ps.broadcast %layers.0.b dims [1] : tensor<6xf32> -> !wide loc("layers.0")
    %layers.0 = ps.add %layers.0.y, %layers.0.bs : !wide loc("layers.0")
    %layers.0.relu = ps.relu %layers.0 : !wide loc("layers.0")
    %pool = ps.max_pool %layers.0.relu window [2, 2] by [2, 2] low [0, 0] dilation [1, 1] : !wide -> !pooled loc("layers.0")
    %layers.1.w = ps.read @"layers.1.weight" : tensor<4x6x3x3xf32> loc("layers.1")
    %layers.1.y = ps.convolution %pool, %layers.1.w by [1, 1] low [1, 1] dilation [1, 1] : (!pooled, tensor<4x6x3x3xf32>) -> !maps loc("layers.1")
    %layers.1.b = ps.read @"layers.1.bias" : tensor<4xf32> loc("layers.1")
    %layers.1.bs = ps.broadcast %layers.1.b dims [1] : tensor<4xf32> -> !maps loc("layers.1")
    %layers.1 = ps.add %layers.1.y, %layers.1.bs : !maps loc("layers.1")
    %layers.1.relu = ps.relu %layers.1 : !maps loc("layers.1")
    %flat = ps.reshape %layers.1.relu : !maps -> tensor<4x36xf32>
    %head.w = ps.read @"head.weight" : tensor<5x36xf32>
    %head.y = ps.contract %flat [0, 1], %head.w [2, 1] -> [0, 2] : (tensor<4x36xf32>, tensor<5x36xf32>) -> tensor<4x5xf32>
    %head.b = ps.read @"head.bias" : tensor<5xf32>
    %head.bs = ps.broadcast %head.b dims [1] : tensor<5xf32> -> tensor<4x5xf32>
    %head = ps.add %head.y, %head.bs : tensor<4x5xf32>
    %each, %lse = ps.cross_entropy %head, %labels ignore -100 : tensor<4x5xf32>, tensor<4xi64> -> tensor<4xf32>
    %sum = ps.reduce sum %each dims [0] : tensor<4xf32> -> tensor<f32>
    %count = ps.constant dense<4.0> : tensor<f32>
    %loss = ps.div %sum, %count : tensor<f32>
    return %loss : tensor<f32>
  }
}
