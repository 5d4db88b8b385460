// RUN: ps-opt %s -split-input-file -verify-diagnostics -ps-verify-partitioned

// expected-error@+1 {{(partitioned_c1) a class function needs ps.phase and ps.saved}}
func.func @partitioned_c1(%x: tensor<4xf32>) attributes {ps.class = "h"} {
  return
}

// -----

// expected-error@+1 {{(partitioned_c1) saves 2 of 1 results}}
func.func @partitioned_c1_saved(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 2 : i64} {
  return %x : tensor<4xf32>
}

// -----

ps.variable parameter @w : tensor<4xf32>
func.func @partitioned_c2() attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
  // expected-error@+1 {{(partitioned_c2) names a variable inside a class function}}
  %0 = ps.read @w : tensor<4xf32>
  return
}

// -----

func.func @partitioned_c3(%x: tensor<4xf32>) attributes {ps.stage = 0 : i64} {
  // expected-error@+1 {{(partitioned_c3) stands between runs; only reads, what moves them, and collectives may}}
  %0 = ps.exp %x : tensor<4xf32>
  return
}

// -----

func.func @partitioned_c4(%x: tensor<4xf32>) {
  // expected-error@+1 {{(partitioned_c4) the mesh has no axis "tp"}}
  %0 = ps.all_reduce sum %x over ["tp"] : tensor<4xf32>
  return
}

// -----

// The twin: all is well.
ps.mesh @mesh <"tp" = 2 : tensor>
func.func @all_is_well(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 1 : i64} {
  %0 = ps.all_reduce sum %x over ["tp"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data, "pp" = 2 : pipeline>
// expected-error@+1 {{(partitioned_c5) has a tensor that is split over axis "pp" of kind pipeline, whose devices run different stages; axes that split tensors are "dp"}}
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"pp"}]>} : tensor<4xf32>

// -----

// A gather that one pipeline coordinate runs.
ps.mesh @mesh <"pp" = 2 : pipeline>
func.func @partitioned_c6(%x: tensor<4xf32>) -> tensor<8xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
  // expected-error@+1 {{(partitioned_c6) goes over axis "pp" of kind pipeline, whose coordinates run different programs: ranks of another coordinate never join it}}
  %0 = ps.all_gather %x over ["pp"] dim 0 : tensor<4xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Beside another axis, and in an entry whose functions are by stage.
ps.mesh @mesh <"dp" = 2 : data, "pp" = 2 : pipeline>
func.func @stage0.update(%x: tensor<4xf32>) attributes {ps.stage = 0 : i64} {
  // expected-error@+1 {{(partitioned_c6) goes over axis "pp"}}
  %0 = ps.all_reduce sum %x over ["dp", "pp"] : tensor<4xf32>
  return
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
func.func @stage0.micro_batch(%x: tensor<4xf32>) attributes {ps.stage = 0 : i64} {
  // expected-error@+1 {{(partitioned_c6) goes over axis "pp"}}
  %0 = ps.all_reduce sum %x over ["pp"] : tensor<4xf32>
  return
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
// expected-error@+1 {{(partitioned_c7) has no counterpart for pipeline coordinate 1: "update" needs a function for each of 2}}
func.func @stage0.update() attributes {ps.stage = 0 : i64} {
  return
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
// expected-error@+1 {{(partitioned_c7) is of pipeline coordinate 2, the module has 2}}
func.func @stage2.update() attributes {ps.stage = 2 : i64} {
  return
}

// -----

module attributes {ps.stage_cuts = array<i64: 1>} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  func.func @stage0.evaluate(%x: tensor<4xf32>) -> (tensor<4xf32> {ps.value = 0 : i64}) attributes {ps.stage = 0 : i64} {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{(partitioned_c8) takes value 1 as argument 0, which no other stage gives}}
  func.func @stage1.evaluate(%x: tensor<4xf32> {ps.value = 1 : i64}) attributes {ps.stage = 1 : i64} {
    return
  }
}

// -----

module attributes {ps.stage_cuts = array<i64: 1>} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  // expected-note@+1 {{given here}}
  func.func @stage0.evaluate(%x: tensor<4xf32>) -> (tensor<4xf32> {ps.value = 0 : i64}) attributes {ps.stage = 0 : i64} {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{(partitioned_c8) takes value 0 as 'tensor<8xf32>'; it is given as 'tensor<4xf32>'}}
  func.func @stage1.evaluate(%x: tensor<8xf32> {ps.value = 0 : i64}) attributes {ps.stage = 1 : i64} {
    return
  }
}

// -----

// Coordinate 1 never joins.
ps.mesh @mesh <"pp" = 2 : pipeline>
ps.variable accumulator @loss.sum : tensor<f32>
func.func @stage0.update() attributes {ps.stage = 0 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  // expected-error@+1 {{(partitioned_c9) is a reduction over pipeline coordinates 0, 1 that 1 never joins}}
  %0 = ps.all_reduce sum %s over ["pp"] : tensor<f32>
  return
}
func.func @stage1.update() attributes {ps.stage = 1 : i64} {
  return
}

// -----

// Another kind.
ps.mesh @mesh <"pp" = 2 : pipeline>
ps.variable accumulator @loss.sum : tensor<f32>
func.func @stage0.update() attributes {ps.stage = 0 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  // expected-note@+1 {{there}}
  %0 = ps.all_reduce sum %s over ["pp"] {ps.reduced = "loss.sum"} : tensor<f32>
  return
}
func.func @stage1.update() attributes {ps.stage = 1 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  // expected-error@+1 {{(partitioned_c9) is the max of 'loss.sum', tensor<f32>; it meets the sum of 'loss.sum', tensor<f32> of pipeline coordinate 0}}
  %0 = ps.all_reduce max %s over ["pp"] {ps.reduced = "loss.sum"} : tensor<f32>
  return
}

// -----

// Reductions of other members in another order: each coordinate waits for the next one.
ps.mesh @mesh <"pp" = 3 : pipeline>
ps.variable accumulator @loss.sum : tensor<f32>
func.func @stage0.update() attributes {ps.stage = 0 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  // expected-error@+1 {{(partitioned_c10) deadlock: pipeline coordinate 0 waits here for ever}}
  %0 = ps.all_reduce sum %s over ["pp"] {ps.coordinates = array<i64: 0, 1>} : tensor<f32>
  %1 = ps.all_reduce sum %s over ["pp"] {ps.coordinates = array<i64: 0, 2>} : tensor<f32>
  return
}
func.func @stage1.update() attributes {ps.stage = 1 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  %0 = ps.all_reduce sum %s over ["pp"] {ps.coordinates = array<i64: 1, 2>} : tensor<f32>
  %1 = ps.all_reduce sum %s over ["pp"] {ps.coordinates = array<i64: 0, 1>} : tensor<f32>
  return
}
func.func @stage2.update() attributes {ps.stage = 2 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  %0 = ps.all_reduce sum %s over ["pp"] {ps.coordinates = array<i64: 0, 2>} : tensor<f32>
  %1 = ps.all_reduce sum %s over ["pp"] {ps.coordinates = array<i64: 1, 2>} : tensor<f32>
  return
}

// -----

// The twin: in one order.
ps.mesh @mesh <"pp" = 3 : pipeline>
ps.variable accumulator @loss.sum : tensor<f32>
func.func @stage0.update() attributes {ps.stage = 0 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  %0 = ps.all_reduce sum %s over ["pp"] {ps.coordinates = array<i64: 0, 1>} : tensor<f32>
  %1 = ps.all_reduce sum %0 over ["pp"] : tensor<f32>
  return
}
func.func @stage1.update() attributes {ps.stage = 1 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  %0 = ps.all_reduce sum %s over ["pp"] {ps.coordinates = array<i64: 0, 1>} : tensor<f32>
  %1 = ps.all_reduce sum %0 over ["pp"] : tensor<f32>
  return
}
func.func @stage2.update() attributes {ps.stage = 2 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  %0 = ps.all_reduce sum %s over ["pp"] : tensor<f32>
  return
}
