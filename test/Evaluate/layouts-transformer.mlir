// Trains two layers of a transformer on one rank and in each layout. Loss, gradients, weights and
// optimizer state agree up to the order of sums. All layouts draw the same dropout masks.
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
// RUN: ps-compile %s -o %t/1.mlir --stop-after training --init "normal(0.3)" --optimizer "adamw(lr=0.01)" --clip-norm 1
// RUN: ps-run %t/1.mlir %{step} --outputs %t/whole.safetensors

// Tensor parallel: 4 heads on 3 ranks have padding, as do 16 and 10 columns.
// REDEFINE: %{ranks} = 2
// REDEFINE: %{flags} = --mesh tp=2
// RUN: %{agrees}
// RUN: FileCheck %s --check-prefix=TP --input-file %t/3-partitioned.mlir
// REDEFINE: %{flags} = --mesh tp=2 --sharding-policy megatron+sp
// RUN: %{agrees}
// RUN: FileCheck %s --check-prefix=SP --input-file %t/3-partitioned.mlir
// REDEFINE: %{flags} = --mesh tp=2 --recompute selective
// RUN: %{agrees}
// REDEFINE: %{ranks} = 3
// REDEFINE: %{flags} = --mesh tp=3
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh tp=3 --sharding-policy megatron+sp
// RUN: %{agrees}

// Data parallel, ZeRO and recomputation.
// REDEFINE: %{ranks} = 4
// REDEFINE: %{flags} = --mesh dp=4
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=4 --zero 3
// RUN: %{agrees}
// REDEFINE: %{ranks} = 2
// REDEFINE: %{flags} = --mesh dp=2
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2 --zero 1
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2 --zero 2
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2 --zero 3
// RUN: %{agrees}
// RUN: FileCheck %s --check-prefix=ZERO3 --input-file %t/3-partitioned.mlir
// REDEFINE: %{flags} = --mesh dp=2 --recompute full
// RUN: %{agrees}
// RUN: FileCheck %s --check-prefix=RECOMPUTE --input-file %t/3-partitioned.mlir

// Several axes.
// REDEFINE: %{ranks} = 4
// REDEFINE: %{flags} = --mesh dp=2,tp=2 --zero 2
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2,tp=2 --sharding-policy megatron+sp --recompute full
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh pp=2,tp=2 --sharding-policy megatron+sp
// RUN: %{agrees}
// REDEFINE: %{flags} = --mesh dp=2,pp=2 --zero 3
// RUN: %{agrees}
// REDEFINE: %{ranks} = 8
// REDEFINE: %{flags} = --mesh dp=2,pp=2,tp=2 --zero 1 --schedule zb-h1
// RUN: %{agrees}

// TP: ps.all_reduce sum {{.*}} over ["tp"]
// SP: ps.reduce_scatter sum {{.*}} over ["tp"]
// ZERO3: ps.all_gather {{.*}} over ["dp"]
// RECOMPUTE: ps.recomputed

!ids = tensor<4x6xi64>
!table = tensor<10x8xf32>
!rows = tensor<4x6xf32>
!hidden = tensor<4x6x8xf32>
!wide = tensor<4x6x16xf32>
!logits = tensor<4x6x10xf32>
!split = tensor<4x6x4x2xf32>
!heads = tensor<4x4x6x2xf32>
module {
  ps.variable parameter @"embedding.weight" names ["embedding.weight"] : tensor<10x8xf32>
  ps.variable parameter @"h.0.ln_1.weight" names ["h.0.ln_1.weight"] : tensor<8xf32>
  ps.variable parameter @"h.0.q.weight" names ["h.0.q.weight"] : tensor<8x8xf32>
  ps.variable parameter @"h.0.q.bias" names ["h.0.q.bias"] : tensor<8xf32>
  ps.variable parameter @"h.0.k.weight" names ["h.0.k.weight"] : tensor<8x8xf32>
  ps.variable parameter @"h.0.v.weight" names ["h.0.v.weight"] : tensor<8x8xf32>
  ps.variable parameter @"h.0.v.bias" names ["h.0.v.bias"] : tensor<8xf32>
  ps.variable parameter @"h.0.out.weight" names ["h.0.out.weight"] : tensor<8x8xf32>
  ps.variable parameter @"h.0.out.bias" names ["h.0.out.bias"] : tensor<8xf32>
  ps.variable parameter @"h.0.ln_2.weight" names ["h.0.ln_2.weight"] : tensor<8xf32>
  ps.variable parameter @"h.0.up.weight" names ["h.0.up.weight"] : tensor<16x8xf32>
  ps.variable parameter @"h.0.up.bias" names ["h.0.up.bias"] : tensor<16xf32>
  ps.variable parameter @"h.0.down.weight" names ["h.0.down.weight"] : tensor<8x16xf32>
  ps.variable parameter @"h.0.down.bias" names ["h.0.down.bias"] : tensor<8xf32>
  ps.variable parameter @"h.1.ln_1.weight" names ["h.1.ln_1.weight"] : tensor<8xf32>
  ps.variable parameter @"h.1.q.weight" names ["h.1.q.weight"] : tensor<8x8xf32>
  ps.variable parameter @"h.1.q.bias" names ["h.1.q.bias"] : tensor<8xf32>
  ps.variable parameter @"h.1.k.weight" names ["h.1.k.weight"] : tensor<8x8xf32>
  ps.variable parameter @"h.1.v.weight" names ["h.1.v.weight"] : tensor<8x8xf32>
  ps.variable parameter @"h.1.v.bias" names ["h.1.v.bias"] : tensor<8xf32>
  ps.variable parameter @"h.1.out.weight" names ["h.1.out.weight"] : tensor<8x8xf32>
  ps.variable parameter @"h.1.out.bias" names ["h.1.out.bias"] : tensor<8xf32>
  ps.variable parameter @"h.1.ln_2.weight" names ["h.1.ln_2.weight"] : tensor<8xf32>
  ps.variable parameter @"h.1.up.weight" names ["h.1.up.weight"] : tensor<16x8xf32>
  ps.variable parameter @"h.1.up.bias" names ["h.1.up.bias"] : tensor<16xf32>
  ps.variable parameter @"h.1.down.weight" names ["h.1.down.weight"] : tensor<8x16xf32>
  ps.variable parameter @"h.1.down.bias" names ["h.1.down.bias"] : tensor<8xf32>
  ps.variable parameter @"ln_f.weight" names ["ln_f.weight"] : tensor<8xf32>
  ps.variable parameter @"head.weight" names ["head.weight"] : tensor<10x8xf32>
  func.func @forward(%ids: !ids {ps.name = "ids"}, %labels: !ids {ps.name = "labels"}) -> (tensor<f32> {ps.name = "loss"}) {
    %embedding.w = ps.read @"embedding.weight" : !table
    %embedding = ps.embedding %embedding.w, %ids : !table, !ids -> !hidden
    %h.0.ln_1.n, %h.0.ln_1.rstd = ps.layer_norm %embedding epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %h.0.ln_1.w = ps.read @"h.0.ln_1.weight" : tensor<8xf32>
    %h.0.ln_1.ws = ps.broadcast %h.0.ln_1.w dims [2] : tensor<8xf32> -> !hidden
    %h.0.ln_1 = ps.mul %h.0.ln_1.n, %h.0.ln_1.ws : !hidden
    %h.0.q.w = ps.read @"h.0.q.weight" : tensor<8x8xf32>
    %h.0.q.y = ps.contract %h.0.ln_1 [0, 1, 2], %h.0.q.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<8x8xf32>) -> !hidden
    %h.0.q.b = ps.read @"h.0.q.bias" : tensor<8xf32>
    %h.0.q.bs = ps.broadcast %h.0.q.b dims [2] : tensor<8xf32> -> !hidden
    %h.0.q = ps.add %h.0.q.y, %h.0.q.bs : !hidden
    %h.0.q.heads.split = ps.reshape %h.0.q : !hidden -> !split
    %h.0.q.heads = ps.transpose %h.0.q.heads.split [0, 2, 1, 3] : !split -> !heads
    %h.0.k.w = ps.read @"h.0.k.weight" : tensor<8x8xf32>
    %h.0.k = ps.contract %h.0.ln_1 [0, 1, 2], %h.0.k.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<8x8xf32>) -> !hidden
    %h.0.k.heads.split = ps.reshape %h.0.k : !hidden -> !split
    %h.0.k.heads = ps.transpose %h.0.k.heads.split [0, 2, 1, 3] : !split -> !heads
    %h.0.v.w = ps.read @"h.0.v.weight" : tensor<8x8xf32>
    %h.0.v.y = ps.contract %h.0.ln_1 [0, 1, 2], %h.0.v.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<8x8xf32>) -> !hidden
    %h.0.v.b = ps.read @"h.0.v.bias" : tensor<8xf32>
    %h.0.v.bs = ps.broadcast %h.0.v.b dims [2] : tensor<8xf32> -> !hidden
    %h.0.v = ps.add %h.0.v.y, %h.0.v.bs : !hidden
    %h.0.v.heads.split = ps.reshape %h.0.v : !hidden -> !split
    %h.0.v.heads = ps.transpose %h.0.v.heads.split [0, 2, 1, 3] : !split -> !heads
    %h.0.attn, %h.0.lse = ps.attention %h.0.q.heads, %h.0.k.heads, %h.0.v.heads causal scale 0.70710678 : (!heads, !heads, !heads) -> (!heads, tensor<4x4x6xf32>)
    %h.0.turned = ps.transpose %h.0.attn [0, 2, 1, 3] : !heads -> !split
    %h.0.merged = ps.reshape %h.0.turned : !split -> !hidden
    %h.0.out.w = ps.read @"h.0.out.weight" : tensor<8x8xf32>
    %h.0.out.y = ps.contract %h.0.merged [0, 1, 2], %h.0.out.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<8x8xf32>) -> !hidden
    %h.0.out.b = ps.read @"h.0.out.bias" : tensor<8xf32>
    %h.0.out.bs = ps.broadcast %h.0.out.b dims [2] : tensor<8xf32> -> !hidden
    %h.0.out = ps.add %h.0.out.y, %h.0.out.bs : !hidden
    %h.0.x = ps.add %embedding, %h.0.out : !hidden
    %h.0.ln_2.n, %h.0.ln_2.rstd = ps.layer_norm %h.0.x epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %h.0.ln_2.w = ps.read @"h.0.ln_2.weight" : tensor<8xf32>
    %h.0.ln_2.ws = ps.broadcast %h.0.ln_2.w dims [2] : tensor<8xf32> -> !hidden
    %h.0.ln_2 = ps.mul %h.0.ln_2.n, %h.0.ln_2.ws : !hidden
    %h.0.up.w = ps.read @"h.0.up.weight" : tensor<16x8xf32>
    %h.0.up.y = ps.contract %h.0.ln_2 [0, 1, 2], %h.0.up.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<16x8xf32>) -> !wide
    %h.0.up.b = ps.read @"h.0.up.bias" : tensor<16xf32>
    %h.0.up.bs = ps.broadcast %h.0.up.b dims [2] : tensor<16xf32> -> !wide
    %h.0.up = ps.add %h.0.up.y, %h.0.up.bs : !wide
    %h.0.gelu = ps.gelu tanh %h.0.up : !wide
    %h.0.drop = ps.dropout %h.0.gelu p 0.1 {ps.key = 1 : i64} : !wide
    %h.0.down.w = ps.read @"h.0.down.weight" : tensor<8x16xf32>
    %h.0.down.y = ps.contract %h.0.drop [0, 1, 2], %h.0.down.w [3, 2] -> [0, 1, 3] : (!wide, tensor<8x16xf32>) -> !hidden
    %h.0.down.b = ps.read @"h.0.down.bias" : tensor<8xf32>
    %h.0.down.bs = ps.broadcast %h.0.down.b dims [2] : tensor<8xf32> -> !hidden
    %h.0.down = ps.add %h.0.down.y, %h.0.down.bs : !hidden
    %h.0 = ps.add %h.0.x, %h.0.down : !hidden
    %h.1.ln_1.n, %h.1.ln_1.rstd = ps.layer_norm %h.0 epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %h.1.ln_1.w = ps.read @"h.1.ln_1.weight" : tensor<8xf32>
    %h.1.ln_1.ws = ps.broadcast %h.1.ln_1.w dims [2] : tensor<8xf32> -> !hidden
    %h.1.ln_1 = ps.mul %h.1.ln_1.n, %h.1.ln_1.ws : !hidden
    %h.1.q.w = ps.read @"h.1.q.weight" : tensor<8x8xf32>
    %h.1.q.y = ps.contract %h.1.ln_1 [0, 1, 2], %h.1.q.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<8x8xf32>) -> !hidden
    %h.1.q.b = ps.read @"h.1.q.bias" : tensor<8xf32>
    %h.1.q.bs = ps.broadcast %h.1.q.b dims [2] : tensor<8xf32> -> !hidden
    %h.1.q = ps.add %h.1.q.y, %h.1.q.bs : !hidden
    %h.1.q.heads.split = ps.reshape %h.1.q : !hidden -> !split
    %h.1.q.heads = ps.transpose %h.1.q.heads.split [0, 2, 1, 3] : !split -> !heads
    %h.1.k.w = ps.read @"h.1.k.weight" : tensor<8x8xf32>
    %h.1.k = ps.contract %h.1.ln_1 [0, 1, 2], %h.1.k.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<8x8xf32>) -> !hidden
    %h.1.k.heads.split = ps.reshape %h.1.k : !hidden -> !split
    %h.1.k.heads = ps.transpose %h.1.k.heads.split [0, 2, 1, 3] : !split -> !heads
    %h.1.v.w = ps.read @"h.1.v.weight" : tensor<8x8xf32>
    %h.1.v.y = ps.contract %h.1.ln_1 [0, 1, 2], %h.1.v.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<8x8xf32>) -> !hidden
    %h.1.v.b = ps.read @"h.1.v.bias" : tensor<8xf32>
    %h.1.v.bs = ps.broadcast %h.1.v.b dims [2] : tensor<8xf32> -> !hidden
    %h.1.v = ps.add %h.1.v.y, %h.1.v.bs : !hidden
    %h.1.v.heads.split = ps.reshape %h.1.v : !hidden -> !split
    %h.1.v.heads = ps.transpose %h.1.v.heads.split [0, 2, 1, 3] : !split -> !heads
    %h.1.attn, %h.1.lse = ps.attention %h.1.q.heads, %h.1.k.heads, %h.1.v.heads causal scale 0.70710678 : (!heads, !heads, !heads) -> (!heads, tensor<4x4x6xf32>)
    %h.1.turned = ps.transpose %h.1.attn [0, 2, 1, 3] : !heads -> !split
    %h.1.merged = ps.reshape %h.1.turned : !split -> !hidden
    %h.1.out.w = ps.read @"h.1.out.weight" : tensor<8x8xf32>
    %h.1.out.y = ps.contract %h.1.merged [0, 1, 2], %h.1.out.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<8x8xf32>) -> !hidden
    %h.1.out.b = ps.read @"h.1.out.bias" : tensor<8xf32>
    %h.1.out.bs = ps.broadcast %h.1.out.b dims [2] : tensor<8xf32> -> !hidden
    %h.1.out = ps.add %h.1.out.y, %h.1.out.bs : !hidden
    %h.1.x = ps.add %h.0, %h.1.out : !hidden
    %h.1.ln_2.n, %h.1.ln_2.rstd = ps.layer_norm %h.1.x epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %h.1.ln_2.w = ps.read @"h.1.ln_2.weight" : tensor<8xf32>
    %h.1.ln_2.ws = ps.broadcast %h.1.ln_2.w dims [2] : tensor<8xf32> -> !hidden
    %h.1.ln_2 = ps.mul %h.1.ln_2.n, %h.1.ln_2.ws : !hidden
    %h.1.up.w = ps.read @"h.1.up.weight" : tensor<16x8xf32>
    %h.1.up.y = ps.contract %h.1.ln_2 [0, 1, 2], %h.1.up.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<16x8xf32>) -> !wide
    %h.1.up.b = ps.read @"h.1.up.bias" : tensor<16xf32>
    %h.1.up.bs = ps.broadcast %h.1.up.b dims [2] : tensor<16xf32> -> !wide
    %h.1.up = ps.add %h.1.up.y, %h.1.up.bs : !wide
    %h.1.gelu = ps.gelu tanh %h.1.up : !wide
    %h.1.drop = ps.dropout %h.1.gelu p 0.1 {ps.key = 2 : i64} : !wide
    %h.1.down.w = ps.read @"h.1.down.weight" : tensor<8x16xf32>
    %h.1.down.y = ps.contract %h.1.drop [0, 1, 2], %h.1.down.w [3, 2] -> [0, 1, 3] : (!wide, tensor<8x16xf32>) -> !hidden
    %h.1.down.b = ps.read @"h.1.down.bias" : tensor<8xf32>
    %h.1.down.bs = ps.broadcast %h.1.down.b dims [2] : tensor<8xf32> -> !hidden
    %h.1.down = ps.add %h.1.down.y, %h.1.down.bs : !hidden
    %h.1 = ps.add %h.1.x, %h.1.down : !hidden
    %ln_f.n, %ln_f.rstd = ps.layer_norm %h.1 epsilon 1.0e-5 : !hidden -> !hidden, !rows
    %ln_f.w = ps.read @"ln_f.weight" : tensor<8xf32>
    %ln_f.ws = ps.broadcast %ln_f.w dims [2] : tensor<8xf32> -> !hidden
    %ln_f = ps.mul %ln_f.n, %ln_f.ws : !hidden
    %head.w = ps.read @"head.weight" : tensor<10x8xf32>
    %head = ps.contract %ln_f [0, 1, 2], %head.w [3, 2] -> [0, 1, 3] : (!hidden, tensor<10x8xf32>) -> !logits
    %each, %lse = ps.cross_entropy %head, %labels ignore -100 : !logits, !ids -> !rows
    %sum = ps.reduce sum %each dims [0, 1] : !rows -> tensor<f32>
    %ignored = ps.constant dense<-100> : !ids
    %counts = ps.compare ne %labels, %ignored : !ids -> tensor<4x6xi1>
    %ones = ps.convert %counts : tensor<4x6xi1> -> !rows
    %count = ps.reduce sum %ones dims [0, 1] : !rows -> tensor<f32>
    %loss = ps.div %sum, %count : tensor<f32>
    return %loss : tensor<f32>
  }
}
