// Trains a model on one rank and in each layout. Its first and last op share a weight, so a
// pipeline adds the gradients of two stages.
// REQUIRES: ps-compile, ps-run
// DEFINE: %{flags} =
// DEFINE: %{ranks} =
// DEFINE: %{compare} = --compare %t/whole.safetensors --tolerance 1e-5
// DEFINE: %{step} = --entry step --micro-batches 4 --inputs %t/batches.safetensors
// DEFINE: %{plan} = ps-compile %t/1.mlir -o %t/4.mlir --stop-after scheduled --dump-dir %t --micro-batches 4
// DEFINE: %{local} = ps-run %t/3-partitioned.mlir %{step} --ranks %{ranks} %{compare}
// DEFINE: %{scheduled} = ps-run %t/4-scheduled.mlir %{step} --ranks %{ranks} %{compare}
// DEFINE: %{agrees} = %{plan} %{flags} && %{local} && %{scheduled}

// RUN: rm -rf %t && mkdir %t
// RUN: ps-run %S/inputs/tokens.mlir --outputs %t/batches.safetensors
// RUN: ps-compile %s -o %t/1.mlir --stop-after training --init "normal(0.3)" --optimizer "adamw(lr=0.01)"
// RUN: ps-run %t/1.mlir %{step} --outputs %t/whole.safetensors

// REDEFINE: %{ranks} = 2
// REDEFINE: %{flags} = --mesh pp=2 --schedule gpipe
// RUN: %{agrees}
// RUN: FileCheck %s --check-prefix=TIED --input-file %t/4-scheduled.mlir
// REDEFINE: %{flags} = --mesh pp=2 --schedule zb-h1
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh pp=2 --num-chunks 2 --schedule interleaved
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh pp=2 --num-chunks 2 --schedule zb-v
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh tp=2 --sharding-policy megatron+sp
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2 --zero 3
// RUN: %{agrees}
// REDEFINE: %{ranks} = 4
// REDEFINE: %{flags} = --mesh pp=4 --schedule 1f1b --recompute full
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2,pp=2 --zero 1
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2,pp=2 --zero 3
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh pp=2,tp=2
// RUN: %{agrees}
// REDEFINE: %{ranks} = 3
// REDEFINE: %{flags} = --mesh tp=3
// RUN: %{agrees}

// TIED: rank.start "all_reduce"({{.*}}) kind sum over_pp [0, 1] {{.*}}"embedding.weight.grad"

!ids = tensor<4x6xi64>
!table = tensor<10x8xf32>
!rows = tensor<4x6xf32>
!hidden = tensor<4x6x8xf32>
!wide = tensor<4x6x16xf32>
!logits = tensor<4x6x10xf32>
module {
  ps.variable parameter @"embedding.weight" names ["embedding.weight"] : tensor<10x8xf32>
  ps.variable parameter @"h.0.ln.weight" names ["h.0.ln.weight"] : tensor<8xf32>
  ps.variable parameter @"h.0.up.weight" names ["h.0.up.weight"] : tensor<16x8xf32>
  ps.variable parameter @"h.0.up.bias" names ["h.0.up.bias"] : tensor<16xf32>
  ps.variable parameter @"h.0.down.weight" names ["h.0.down.weight"] : tensor<8x16xf32>
  ps.variable parameter @"h.1.ln.weight" names ["h.1.ln.weight"] : tensor<8xf32>
  ps.variable parameter @"h.1.up.weight" names ["h.1.up.weight"] : tensor<16x8xf32>
  ps.variable parameter @"h.1.up.bias" names ["h.1.up.bias"] : tensor<16xf32>
  ps.variable parameter @"h.1.down.weight" names ["h.1.down.weight"] : tensor<8x16xf32>
  ps.variable parameter @"h.2.ln.weight" names ["h.2.ln.weight"] : tensor<8xf32>
  ps.variable parameter @"h.2.up.weight" names ["h.2.up.weight"] : tensor<16x8xf32>
  ps.variable parameter @"h.2.up.bias" names ["h.2.up.bias"] : tensor<16xf32>
  ps.variable parameter @"h.2.down.weight" names ["h.2.down.weight"] : tensor<8x16xf32>
  ps.variable parameter @"h.3.ln.weight" names ["h.3.ln.weight"] : tensor<8xf32>
  ps.variable parameter @"h.3.up.weight" names ["h.3.up.weight"] : tensor<16x8xf32>
  ps.variable parameter @"h.3.up.bias" names ["h.3.up.bias"] : tensor<16xf32>
  ps.variable parameter @"h.3.down.weight" names ["h.3.down.weight"] : tensor<8x16xf32>
  ps.variable parameter @"ln_f.weight" names ["ln_f.weight"] : tensor<8xf32>
  func.func @forward(%ids: !ids {ps.name = "ids"}, %labels: !ids {ps.name = "labels"}) -> (tensor<f32> {ps.name = "loss"}) {
    %embedding.w = ps.read @"embedding.weight" : !table
    %embedding = ps.embedding %embedding.w, %ids : !table, !ids -> !hidden
    %h.0.ln.n, %h.0.ln.rstd = ps.layer_norm %embedding epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %h.0.ln.w = ps.read @"h.0.ln.weight" : tensor<8xf32>
    %h.0.ln.ws = ps.broadcast %h.0.ln.w dims [2] : tensor<8xf32> -> !hidden
    %h.0.ln = ps.mul %h.0.ln.n, %h.0.ln.ws : !hidden
    %h.0.up.w = ps.read @"h.0.up.weight" : tensor<16x8xf32>
    %h.0.up.y = ps.contract %h.0.ln [0, 1, 2], %h.0.up.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<16x8xf32>) -> !wide
    %h.0.up.b = ps.read @"h.0.up.bias" : tensor<16xf32>
    %h.0.up.bs = ps.broadcast %h.0.up.b dims [2] : tensor<16xf32> -> !wide
    %h.0.up = ps.add %h.0.up.y, %h.0.up.bs : !wide
    %h.0.silu = ps.silu %h.0.up : !wide
    %h.0.down.w = ps.read @"h.0.down.weight" : tensor<8x16xf32>
    %h.0.down = ps.contract %h.0.silu [0, 1, 2], %h.0.down.w [3, 2] -> [0, 1, 3] : (!wide, tensor<8x16xf32>) -> !hidden
    %h.0 = ps.add %embedding, %h.0.down : !hidden
    %h.1.ln.n, %h.1.ln.rstd = ps.layer_norm %h.0 epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %h.1.ln.w = ps.read @"h.1.ln.weight" : tensor<8xf32>
    %h.1.ln.ws = ps.broadcast %h.1.ln.w dims [2] : tensor<8xf32> -> !hidden
    %h.1.ln = ps.mul %h.1.ln.n, %h.1.ln.ws : !hidden
    %h.1.up.w = ps.read @"h.1.up.weight" : tensor<16x8xf32>
    %h.1.up.y = ps.contract %h.1.ln [0, 1, 2], %h.1.up.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<16x8xf32>) -> !wide
    %h.1.up.b = ps.read @"h.1.up.bias" : tensor<16xf32>
    %h.1.up.bs = ps.broadcast %h.1.up.b dims [2] : tensor<16xf32> -> !wide
    %h.1.up = ps.add %h.1.up.y, %h.1.up.bs : !wide
    %h.1.silu = ps.silu %h.1.up : !wide
    %h.1.down.w = ps.read @"h.1.down.weight" : tensor<8x16xf32>
    %h.1.down = ps.contract %h.1.silu [0, 1, 2], %h.1.down.w [3, 2] -> [0, 1, 3] : (!wide, tensor<8x16xf32>) -> !hidden
    %h.1 = ps.add %h.0, %h.1.down : !hidden
    %h.2.ln.n, %h.2.ln.rstd = ps.layer_norm %h.1 epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %h.2.ln.w = ps.read @"h.2.ln.weight" : tensor<8xf32>
    %h.2.ln.ws = ps.broadcast %h.2.ln.w dims [2] : tensor<8xf32> -> !hidden
    %h.2.ln = ps.mul %h.2.ln.n, %h.2.ln.ws : !hidden
    %h.2.up.w = ps.read @"h.2.up.weight" : tensor<16x8xf32>
    %h.2.up.y = ps.contract %h.2.ln [0, 1, 2], %h.2.up.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<16x8xf32>) -> !wide
    %h.2.up.b = ps.read @"h.2.up.bias" : tensor<16xf32>
    %h.2.up.bs = ps.broadcast %h.2.up.b dims [2] : tensor<16xf32> -> !wide
    %h.2.up = ps.add %h.2.up.y, %h.2.up.bs : !wide
    %h.2.silu = ps.silu %h.2.up : !wide
    %h.2.down.w = ps.read @"h.2.down.weight" : tensor<8x16xf32>
    %h.2.down = ps.contract %h.2.silu [0, 1, 2], %h.2.down.w [3, 2] -> [0, 1, 3] : (!wide, tensor<8x16xf32>) -> !hidden
    %h.2 = ps.add %h.1, %h.2.down : !hidden
    %h.3.ln.n, %h.3.ln.rstd = ps.layer_norm %h.2 epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %h.3.ln.w = ps.read @"h.3.ln.weight" : tensor<8xf32>
    %h.3.ln.ws = ps.broadcast %h.3.ln.w dims [2] : tensor<8xf32> -> !hidden
    %h.3.ln = ps.mul %h.3.ln.n, %h.3.ln.ws : !hidden
    %h.3.up.w = ps.read @"h.3.up.weight" : tensor<16x8xf32>
    %h.3.up.y = ps.contract %h.3.ln [0, 1, 2], %h.3.up.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<16x8xf32>) -> !wide
    %h.3.up.b = ps.read @"h.3.up.bias" : tensor<16xf32>
    %h.3.up.bs = ps.broadcast %h.3.up.b dims [2] : tensor<16xf32> -> !wide
    %h.3.up = ps.add %h.3.up.y, %h.3.up.bs : !wide
    %h.3.silu = ps.silu %h.3.up : !wide
    %h.3.down.w = ps.read @"h.3.down.weight" : tensor<8x16xf32>
    %h.3.down = ps.contract %h.3.silu [0, 1, 2], %h.3.down.w [3, 2] -> [0, 1, 3] : (!wide, tensor<8x16xf32>) -> !hidden
    %h.3 = ps.add %h.2, %h.3.down : !hidden
    %ln_f.n, %ln_f.rstd = ps.layer_norm %h.3 epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %ln_f.w = ps.read @"ln_f.weight" : tensor<8xf32>
    %ln_f.ws = ps.broadcast %ln_f.w dims [2] : tensor<8xf32> -> !hidden
    %ln_f = ps.mul %ln_f.n, %ln_f.ws : !hidden
    %logits = ps.contract %ln_f [0, 1, 2], %embedding.w [3, 2] -> [0, 1, 3] : (!hidden, !table) -> !logits
    %each, %lse = ps.cross_entropy %logits, %labels ignore -100 : !logits, !ids -> !rows
    %sum = ps.reduce sum %each dims [0, 1] : !rows -> tensor<f32>
    %ignored = ps.constant dense<-100> : !ids
    %counts = ps.compare ne %labels, %ignored : !ids -> tensor<4x6xi1>
    %ones = ps.convert %counts : tensor<4x6xi1> -> !rows
    %count = ps.reduce sum %ones dims [0, 1] : !rows -> tensor<f32>
    %loss = ps.div %sum, %count : tensor<f32>
    return %loss : tensor<f32>
  }
}
