// RUN: ps-opt %s -split-input-file -ps-partition -ps-explain-collectives=record | FileCheck %s

// A column-parallel and a row-parallel matmul need one all-reduce, at the marked result.
module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  ps.variable parameter @up {ps.sharding = #ps.sharding<@mesh, [{"tp"}, {}]>} : tensor<8x4xf32>
  ps.variable parameter @down {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>} : tensor<4x8xf32>
  // CHECK-LABEL: func.func @column_then_row
  // CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>
  func.func @column_then_row(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    // CHECK: %[[UP:.*]] = ps.read @up : tensor<4x4xf32>
    %up = ps.read @up {ps.shardings = [#ps.sharding<@mesh, [{"tp"}, {}]>]} : tensor<8x4xf32>
    // CHECK: %[[H:.*]] = ps.contract %[[X]] [0, 1], %[[UP]] [2, 1] -> [0, 2] : {{.*}} -> tensor<2x4xf32>
    %h = ps.contract %x [0, 1], %up [2, 1] -> [0, 2] {ps.shardings = [#ps.sharding<@mesh, [{}, {"tp"}]>]} : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
    // CHECK: ps.relu %[[H]] : tensor<2x4xf32>
    %r = ps.relu %h {ps.shardings = [#ps.sharding<@mesh, [{}, {"tp"}]>]} : tensor<2x8xf32>
    %down = ps.read @down {ps.shardings = [#ps.sharding<@mesh, [{}, {"tp"}]>]} : tensor<4x8xf32>
    // CHECK: %[[PART:.*]] = ps.contract
    // CHECK: %[[Y:.*]] = ps.all_reduce sum %[[PART]] over ["tp"] : tensor<2x4xf32>
    // CHECK: return %[[Y]]
    %y = ps.contract %r [0, 1], %down [2, 1] -> [0, 2] {ps.shardings = [#ps.sharding<@mesh, [{}, {}]>]} : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
    return %y : tensor<2x4xf32>
  }
}

// -----

// Twin: without a split, nothing changes.
module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  // CHECK-LABEL: func.func @replicated_is_untouched
  // CHECK-NEXT: %[[Y:.*]] = ps.relu %{{.*}} : tensor<2x4xf32>
  // CHECK-NEXT: return %[[Y]]
  func.func @replicated_is_untouched(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %y = ps.relu %x : tensor<2x4xf32>
    return %y : tensor<2x4xf32>
  }
}

// -----

// A reduction whose result is marked as split becomes a reduce-scatter.
module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  // CHECK-LABEL: func.func @scattered_at_its_mark
  func.func @scattered_at_its_mark(%x: tensor<2x8xf32> {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>}) -> (tensor<2xf32> {ps.sharding = #ps.sharding<@mesh, [{"tp"}]>}) {
    // CHECK: %[[R:.*]] = ps.reduce sum %{{.*}} dims [1] : tensor<2x4xf32> -> tensor<2xf32>
    // CHECK: ps.reduce_scatter sum %[[R]] over ["tp"] dim 0 : tensor<2xf32> -> tensor<1xf32>
    %r = ps.reduce sum %x dims [1] {ps.shardings = [#ps.sharding<@mesh, [{"tp"}]>]} : tensor<2x8xf32> -> tensor<2xf32>
    return %r : tensor<2xf32>
  }
}

// -----

// Seven columns over two ranks: each rank holds four, and the padding column is not summed.
module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  // CHECK-LABEL: func.func @padding_is_not_summed
  // CHECK-SAME: tensor<2x4xf32>
  func.func @padding_is_not_summed(%x: tensor<2x7xf32> {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>}) -> tensor<2xf32> {
    // CHECK: ps.exp %{{.*}} {ps.global = [tensor<2x7xf32>], ps.shardings = [#ps.sharding<@mesh, [{}, {"tp"}]>]} : tensor<2x4xf32>
    %e = ps.exp %x {ps.shardings = [#ps.sharding<@mesh, [{}, {"tp"}]>]} : tensor<2x7xf32>
    // CHECK: ps.shard_index over ["tp"]
    // CHECK: %[[INSIDE:.*]] = ps.compare lt
    // CHECK: %[[MASK:.*]] = ps.broadcast %[[INSIDE]] dims [1] : tensor<4xi1> -> tensor<2x4xi1>
    // CHECK: %[[SAFE:.*]] = ps.select %[[MASK]]
    // CHECK: ps.reduce sum %[[SAFE]]
    %r = ps.reduce sum %e dims [1] : tensor<2x7xf32> -> tensor<2xf32>
    return %r : tensor<2xf32>
  }
}

// -----

// A value that two ops need unsplit is gathered once. A slice removes the padding.
module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  // CHECK-LABEL: func.func @gathered_once
  // CHECK: ps.all_gather %{{.*}} over ["tp"] dim 1 : tensor<2x4xf32> -> tensor<2x8xf32>
  // CHECK-NEXT: %[[G:.*]] = ps.slice %{{.*}} [0, 0] to [2, 7]
  // CHECK-NOT: ps.all_gather
  // CHECK: ps.exp %[[G]]
  // CHECK: ps.relu %[[G]]
  func.func @gathered_once(%x: tensor<2x7xf32> {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>}) -> (tensor<2x7xf32>, tensor<2x7xf32>) {
    %a = ps.exp %x : tensor<2x7xf32>
    %b = ps.relu %x : tensor<2x7xf32>
    return %a, %b : tensor<2x7xf32>, tensor<2x7xf32>
  }
}

// -----

// A dim of factors 3 x 4, with the second factor split, is gathered along that factor.
module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  // CHECK-LABEL: func.func @gathered_by_factor
  // CHECK-SAME: %[[X:.*]]: tensor<2x6xf32>
  // CHECK: %[[E:.*]] = ps.reshape %[[X]] : tensor<2x6xf32> -> tensor<2x3x2xf32>
  // CHECK: %[[G:.*]] = ps.all_gather %[[E]] over ["tp"] dim 2 : tensor<2x3x2xf32> -> tensor<2x3x4xf32>
  // CHECK: ps.reshape %[[G]] : tensor<2x3x4xf32> -> tensor<2x12xf32>
  func.func @gathered_by_factor(%x: tensor<2x12xf32> {ps.sharding = #ps.sharding<@mesh, [{}, (3 x 4 {"tp"})]>}) -> tensor<2x12xf32> {
    %a = ps.exp %x : tensor<2x12xf32>
    return %a : tensor<2x12xf32>
  }
}

// -----

// An axis that moves from one dim to another becomes an all-to-all.
module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  // CHECK-LABEL: func.func @exchanged
  // CHECK: ps.all_to_all %{{.*}} over ["tp"] split 1 concat 0 : tensor<2x8xf32> -> tensor<4x4xf32>
  func.func @exchanged(%x: tensor<4x8xf32> {ps.sharding = #ps.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<4x8xf32> {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>}) {
    return %x : tensor<4x8xf32>
  }
}

// -----

// A gradient that is partial over dp is accumulated without communication and reduced in @update.
module {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{}]>} : tensor<4xf32>
  ps.variable gradient @w.grad of @w {ps.sharding = #ps.sharding<@mesh, [{}], partial = {"dp": sum}>} : tensor<4xf32>
  // CHECK-LABEL: func.func @micro_batch
  // CHECK: %[[R:.*]] = ps.reduce
  // CHECK-NEXT: ps.accumulate @w.grad, %[[R]]
  func.func @micro_batch(%x: tensor<2x4xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>}) {
    %r = ps.reduce sum %x dims [0] {ps.shardings = [#ps.sharding<@mesh, [{}], partial = {"dp": sum}>]} : tensor<2x4xf32> -> tensor<4xf32>
    ps.accumulate @w.grad, %r : tensor<4xf32>
    return
  }
  // CHECK-LABEL: func.func @update
  // CHECK: %[[G:.*]] = ps.read @w.grad
  // CHECK-NEXT: %[[ALL:.*]] = ps.all_reduce sum %[[G]] over ["dp"]
  // CHECK-NEXT: ps.write @w, %[[ALL]]
  func.func @update() {
    %g = ps.read @w.grad {ps.phase = #ps.phase<update>, ps.shardings = [#ps.sharding<@mesh, [{}], partial = {"dp": sum}>]} : tensor<4xf32>
    ps.write @w, %g {ps.phase = #ps.phase<update>} : tensor<4xf32>
    return
  }
}

// -----

// Without a mesh, only the level changes.
// CHECK-LABEL: ps.level = #ps.level<partitioned>
module {
  // CHECK: func.func @one_device(%{{.*}}: tensor<2xf32>)
  func.func @one_device(%x: tensor<2xf32>) -> tensor<2xf32> {
    return %x : tensor<2xf32>
  }
}
