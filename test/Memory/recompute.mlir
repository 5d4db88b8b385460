// Recomputes forward values before the backward of their segment, starting from saved values.
// RUN: ps-opt %s --ps-recompute=mode=none | FileCheck %s --check-prefix=NONE
// RUN: ps-opt %s --ps-recompute=mode=full --ps-verify-planned | FileCheck %s --check-prefix=FULL
// RUN: ps-opt %s --ps-recompute=mode=selective --ps-verify-planned | FileCheck %s --check-prefix=SOME
// RUN: ps-opt %s --ps-recompute=mode=modules=net.act --ps-verify-planned | FileCheck %s --check-prefix=ONE
// RUN: not ps-opt %s --ps-recompute=mode=modules=net.acts 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not ps-opt %s --ps-recompute=mode=most 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not ps-opt %s --ps-recompute=mode=budget=1MB 2>&1 | FileCheck %s --check-prefix=THEN
// DEFINE: %{then} = then={ps-partition,ps-simplify-collectives,ps-split-stages,ps-outline-segments,ps-fuse,ps-schedule,ps-plan-memory}
// RUN: ps-opt %s --pass-pipeline="builtin.module(ps-recompute{mode=budget=1MB %{then}})" | FileCheck %s --check-prefix=ROOM
// RUN: ps-opt %s --pass-pipeline="builtin.module(ps-recompute{mode=budget=3000 %{then}},ps-verify-planned)" | FileCheck %s --check-prefix=LESS
// RUN: not ps-opt %s --pass-pipeline="builtin.module(ps-recompute{mode=budget=10 %{then}})" 2>&1 | FileCheck %s --check-prefix=LEAST

// THEN: --recompute budget measures memory by running later passes; set option `then` to the passes up to level placed
// Twin: if memory suffices, nothing is recomputed.
// ROOM: ps.memory_budget = 1000000{{.*}}"budget=1MB: 0 of 2 layers
// ROOM-NOT: ps.recomputed
// LESS: ps.memory_budget = 3000{{.*}}"budget=3000: 1 of 2 layers
// LESS: ps.sin %{{.*}}backward_input{{.*}}ps.recomputed
// LEAST: --recompute budget=10: a rank needs at least {{[0-9]+}} B ({{[0-9]+}} bytes), even if {{.*}}. Increase the budget, {{.*}}. The largest buffers at the peak (in {{.*}}): 128 B of parameter w,
// NEAR: --recompute modules=net.acts matches no module of the model; the nearest names are 'net.act'
// BAD: --recompute most is not valid; use none, selective, full, full+communication, modules=GLOB,... or budget=BYTES
// Twin: without a mode, nothing is recomputed.
// NONE-NOT: ps.recomputed

ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>} : tensor<8x8xf32>
ps.variable gradient @g of @w {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}], partial = {"dp": sum}>} : tensor<8x8xf32>

#f = #ps.phase<forward>
#b = #ps.phase<backward_input>
#split = #ps.sharding<@mesh, [{"dp"}, {"tp"}]>
#rows = #ps.sharding<@mesh, [{"dp"}, {}]>

// The contraction needs an all-reduce over tp, so its result is saved. The ops after it run again.
// FULL-LABEL: func.func @micro_batch
// FULL: %[[SUM:.*]] = ps.contract
// FULL: %[[OUT:.*]] = ps.exp
// FULL: ps.sin %[[SUM]] {{.*}}backward_input{{.*}}ps.recomputed
// FULL: %[[AGAIN:.*]] = ps.exp {{.*}}backward_input{{.*}}ps.recomputed
// FULL-NOT: ps.recomputed
// FULL: ps.mul %{{.*}}, %[[AGAIN]]
// SOME: ps.sin %{{.*}}backward_input{{.*}}ps.recomputed
// SOME: %[[AGAIN:.*]] = ps.exp {{.*}}backward_input{{.*}}ps.recomputed
// SOME: ps.mul %{{.*}}, %[[AGAIN]]
// Recompute of one module: inputs from other modules are saved.
// ONE: %[[SIN:.*]] = ps.sin
// ONE: %[[AGAIN:.*]] = ps.exp %[[SIN]] {{.*}}backward_input{{.*}}ps.recomputed
// ONE-NOT: ps.recomputed
func.func @micro_batch(%x: tensor<4x8xf32> {ps.sharding = #split}, %d: tensor<4x8xf32> {ps.sharding = #rows}) -> (tensor<4x8xf32> {ps.sharding = #rows}) {
  %w = ps.read @w {ps.phase = #f, ps.segment = 0 : i64, ps.shardings = [#ps.sharding<@mesh, [{}, {"tp"}]>]} : tensor<8x8xf32> loc("net")
  %0 = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] {ps.phase = #f, ps.segment = 0 : i64, ps.shardings = [#rows]} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("net.linear")
  %1 = ps.sin %0 {ps.phase = #f, ps.segment = 0 : i64, ps.shardings = [#rows]} : tensor<4x8xf32> loc("net.wave")
  %2 = ps.exp %1 {ps.phase = #f, ps.segment = 0 : i64, ps.shardings = [#rows]} : tensor<4x8xf32> loc("net.act")
  %3 = ps.neg %2 {ps.phase = #f, ps.segment = 1 : i64, ps.shardings = [#rows]} : tensor<4x8xf32> loc("head")
  %4 = ps.neg %d {ps.phase = #b, ps.segment = 1 : i64, ps.shardings = [#rows]} : tensor<4x8xf32> loc("head")
  %5 = ps.mul %4, %2 {ps.phase = #b, ps.segment = 0 : i64, ps.shardings = [#rows]} : tensor<4x8xf32> loc("net.act")
  %6 = ps.mul %5, %0 {ps.phase = #b, ps.segment = 0 : i64, ps.shardings = [#rows]} : tensor<4x8xf32> loc("net.wave")
  %7 = ps.contract %6 [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #b, ps.segment = 0 : i64, ps.shardings = [#ps.sharding<@mesh, [{}, {"tp"}], partial = {"dp": sum}>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> loc("net.linear")
  ps.accumulate @g, %7 {ps.phase = #b, ps.segment = 0 : i64} : tensor<8x8xf32>
  return %3 : tensor<4x8xf32>
}
