// Recomputes a contraction from a gather that the weight gradient needs anyway, without a second
// gather.
// RUN: ps-opt %s --ps-recompute=mode=full --ps-verify-planned -o %t
// RUN: FileCheck %s < %t
// RUN: ps-opt %t --ps-partition --ps-simplify-collectives | FileCheck %s --check-prefix=MOVED
// Twin: backward does not use the gathered value, so the contraction is not recomputed.
// RUN: sed '/TWIN/d' %s | ps-opt --ps-recompute=mode=full --ps-verify-planned | FileCheck %s --check-prefix=ALONE

ps.mesh @mesh <"tp" = 2 : tensor>
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"tp"}, {}]>} : tensor<8x8xf32>
ps.variable gradient @g of @w {ps.sharding = #ps.sharding<@mesh, [{"tp"}, {}]>} : tensor<8x8xf32>

#f = #ps.phase<forward>
#b = #ps.phase<backward_input>
#split_rows = #ps.sharding<@mesh, [{"tp"}, {}]>
#features = #ps.sharding<@mesh, [{}, {"tp"}]>

// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[SIN:.*]] = ps.sin {{.*}}backward_input{{.*}}ps.recomputed
// CHECK: %[[AGAIN:.*]] = ps.contract %[[SIN]] {{.*}}backward_input{{.*}}ps.recomputed
// CHECK: ps.exp %[[AGAIN]] {{.*}}ps.recomputed
// CHECK: ps.contract %{{.*}}, %[[SIN]]
// MOVED-LABEL: func.func @micro_batch
// MOVED: ps.all_gather {{.*}}forward
// MOVED: ps.all_gather {{.*}}backward_input
// MOVED-NOT: ps.all_gather
// ALONE-LABEL: func.func @micro_batch
// ALONE: %[[KEPT:.*]] = ps.contract
// ALONE: ps.exp %[[KEPT]] {{.*}}ps.recomputed
// ALONE-NOT: ps.recomputed
func.func @micro_batch(%x: tensor<4x8xf32> {ps.sharding = #split_rows}, %d: tensor<4x8xf32> {ps.sharding = #features}) -> (tensor<4x8xf32> {ps.sharding = #features}) {
  %w = ps.read @w {ps.phase = #f, ps.segment = 0 : i64, ps.shardings = [#split_rows]} : tensor<8x8xf32>
  %0 = ps.sin %x {ps.phase = #f, ps.segment = 0 : i64, ps.shardings = [#split_rows]} : tensor<4x8xf32>
  %1 = ps.contract %0 [0, 1], %w [2, 1] -> [0, 2] {ps.phase = #f, ps.segment = 0 : i64, ps.shardings = [#features]} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = ps.exp %1 {ps.phase = #f, ps.segment = 0 : i64, ps.shardings = [#features]} : tensor<4x8xf32>
  %3 = ps.neg %2 {ps.phase = #f, ps.segment = 1 : i64, ps.shardings = [#features]} : tensor<4x8xf32>
  %4 = ps.neg %d {ps.phase = #b, ps.segment = 1 : i64, ps.shardings = [#features]} : tensor<4x8xf32>
  %5 = ps.mul %4, %2 {ps.phase = #b, ps.segment = 0 : i64, ps.shardings = [#features]} : tensor<4x8xf32>
  %6 = ps.contract %5 [0, 2], %0 [0, 1] -> [2, 1] {ps.phase = #b, ps.segment = 0 : i64, ps.shardings = [#split_rows]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> // TWIN
  ps.accumulate @g, %6 {ps.phase = #b, ps.segment = 0 : i64} : tensor<8x8xf32> // TWIN
  return %3 : tensor<4x8xf32>
}
