// RUN: ps-opt %s -split-input-file -verify-diagnostics -ps-verify-partitioned

// expected-error@+1 {{(partitioned_c1) a class function needs ps.phase and ps.saved}}
func.func @partitioned_c1(%x: tensor<4xf32>) attributes {ps.class = "h"} {
  return
}

// -----

// expected-error@+1 {{(partitioned_c1) saves 2 of 1 result}}
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
  // expected-error@+1 {{(partitioned_c3) is between runs; only reads, conversions, data movement, shard indices and collectives are valid here}}
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

// Twin: a valid class function.
ps.mesh @mesh <"tp" = 2 : tensor>
func.func @valid_class_function(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 1 : i64} {
  %0 = ps.all_reduce sum %x over ["tp"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data, "pp" = 2 : pipeline>
// expected-error@+1 {{(partitioned_c5) has a tensor that is split over axis "pp" of kind pipeline, whose devices run different stages; axes that split tensors are "dp"}}
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"pp"}]>} : tensor<4xf32>

// -----

// An all-gather over the pipeline axis that only one coordinate runs.
ps.mesh @mesh <"pp" = 2 : pipeline>
func.func @partitioned_c6(%x: tensor<4xf32>) -> tensor<8xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
  // expected-error@+1 {{(partitioned_c6) uses axis "pp" of kind pipeline, whose coordinates run different programs: ranks of other coordinates never join this collective}}
  %0 = ps.all_gather %x over ["pp"] dim 0 : tensor<4xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// The pipeline axis together with another axis, in an entry with one function per stage.
ps.mesh @mesh <"dp" = 2 : data, "pp" = 2 : pipeline>
func.func @stage0.update(%x: tensor<4xf32>) attributes {ps.stage = 0 : i64} {
  // expected-error@+1 {{(partitioned_c6) uses axis "pp"}}
  %0 = ps.all_reduce sum %x over ["dp", "pp"] : tensor<4xf32>
  return
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
func.func @stage0.micro_batch(%x: tensor<4xf32>) attributes {ps.stage = 0 : i64} {
  // expected-error@+1 {{(partitioned_c6) uses axis "pp"}}
  %0 = ps.all_reduce sum %x over ["pp"] : tensor<4xf32>
  return
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
// expected-error@+1 {{(partitioned_c7) belongs to entry "update", which has no function for pipeline coordinate 1; the entry needs 2 functions, one per pipeline coordinate}}
func.func @stage0.update() attributes {ps.stage = 0 : i64} {
  return
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
// expected-error@+1 {{(partitioned_c7) belongs to pipeline coordinate 2; expected a number below 2}}
func.func @stage2.update() attributes {ps.stage = 2 : i64} {
  return
}

// -----

module attributes {ps.stage_cuts = array<i64: 1>} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  func.func @stage0.evaluate(%x: tensor<4xf32>) -> (tensor<4xf32> {ps.value = 0 : i64}) attributes {ps.stage = 0 : i64} {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{(partitioned_c8) receives value 1 as argument 0, but no other stage sends it}}
  func.func @stage1.evaluate(%x: tensor<4xf32> {ps.value = 1 : i64}) attributes {ps.stage = 1 : i64} {
    return
  }
}

// -----

module attributes {ps.stage_cuts = array<i64: 1>} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  // expected-note@+1 {{sent here}}
  func.func @stage0.evaluate(%x: tensor<4xf32>) -> (tensor<4xf32> {ps.value = 0 : i64}) attributes {ps.stage = 0 : i64} {
    return %x : tensor<4xf32>
  }
  // expected-error@+1 {{(partitioned_c8) receives value 0 as 'tensor<8xf32>', but it is sent as 'tensor<4xf32>'}}
  func.func @stage1.evaluate(%x: tensor<8xf32> {ps.value = 0 : i64}) attributes {ps.stage = 1 : i64} {
    return
  }
}

// -----

// Coordinate 1 does not run the reduction.
ps.mesh @mesh <"pp" = 2 : pipeline>
ps.variable accumulator @loss.sum : tensor<f32>
func.func @stage0.update() attributes {ps.stage = 0 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  // expected-error@+1 {{(partitioned_c9) reduces over pipeline coordinates 0, 1, but coordinate 1 never joins}}
  %0 = ps.all_reduce sum %s over ["pp"] : tensor<f32>
  return
}
func.func @stage1.update() attributes {ps.stage = 1 : i64} {
  return
}

// -----

// The coordinates reduce by different kinds.
ps.mesh @mesh <"pp" = 2 : pipeline>
ps.variable accumulator @loss.sum : tensor<f32>
func.func @stage0.update() attributes {ps.stage = 0 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  // expected-note@+1 {{other reduction here}}
  %0 = ps.all_reduce sum %s over ["pp"] {ps.reduced = "loss.sum"} : tensor<f32>
  return
}
func.func @stage1.update() attributes {ps.stage = 1 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  // expected-error@+1 {{(partitioned_c9) is the max of 'loss.sum', tensor<f32>, but the matching reduction of pipeline coordinate 0 is the sum of 'loss.sum', tensor<f32>}}
  %0 = ps.all_reduce max %s over ["pp"] {ps.reduced = "loss.sum"} : tensor<f32>
  return
}

// -----

// The coordinates run reductions over different members in different orders, so each waits for the
// next.
ps.mesh @mesh <"pp" = 3 : pipeline>
ps.variable accumulator @loss.sum : tensor<f32>
func.func @stage0.update() attributes {ps.stage = 0 : i64} {
  %s = ps.read @loss.sum : tensor<f32>
  // expected-error@+1 {{(partitioned_c10) deadlock: pipeline coordinate 0 waits here forever}}
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

// Twin: all coordinates run the reductions in the same order.
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

// -----

// A mark has the wrong type.
// expected-error@+1 {{(partitioned_c1) a class function needs ps.phase and ps.saved}}
func.func @partitioned_c1_type(%x: tensor<4xf32>) attributes {ps.class = "h", ps.phase = "forward", ps.saved = 0 : i64} {
  return
}

// -----

// expected-error@+1 {{(partitioned_c11) the module has ps.stage_cuts = array<i64>; expected 1 ascending cuts for 2 pipeline coordinates with 1 chunks each}}
module attributes {ps.stage_cuts = array<i64>} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
}

// -----

// expected-error@+1 {{(partitioned_c11) the module has ps.num_chunks = 0 : i64; expected an i64 from 1 to 2^20}}
module attributes {ps.num_chunks = 0 : i64, ps.stage_cuts = array<i64: 1>} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
}

// -----

func.func private @h.forward(tensor<4xf32>) -> tensor<4xf32>
func.func @stage0.micro_batch(%x: tensor<4xf32>) attributes {ps.stage = 0 : i64} {
  // expected-error@+1 {{(partitioned_c12) runs @h.forward, which is not a class function: it lacks ps.class}}
  %0 = rank.run @h.forward(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// Forward uses a result of backward.
func.func @h(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
func.func @stage0.micro_batch(%x: tensor<4xf32>) attributes {ps.stage = 0 : i64} {
  %0 = rank.run @h(%x) {ps.phase = #ps.phase<backward_weight>} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{(partitioned_c13) uses a value of a later phase; the order is forward, backward_input, backward_weight}}
  %1 = rank.run @h(%0) {ps.phase = #ps.phase<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @h(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
  return %x : tensor<4xf32>
}
func.func @stage0.evaluate(%x: tensor<4xf32>) attributes {ps.stage = 0 : i64} {
  // expected-error@+1 {{(partitioned_c13) belongs to the backward, which entry "evaluate" does not have}}
  %0 = rank.run @h(%x) {ps.phase = #ps.phase<backward_weight>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// Constraints that the verifier of every level checks.
// expected-error@+1 {{(module_c1) has a tensor of type 'tensor<4294967296x4294967296xf32>'; expected a static shape of at most 2^40 elements}}
ps.variable parameter @module_c1 : tensor<4294967296x4294967296xf32>

// -----

// expected-error@+1 {{(module_c1) has a tensor of type 'tensor<?xf32>'; expected a static shape of at most 2^40 elements}}
func.func private @module_c1_dynamic(tensor<?xf32>)

// -----

func.func @module_c2(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{(module_c2) has the attribute "ps.origin" = 9223372036854775807 : i64, expected an i64 in [0, 2^40]}}
  %0 = ps.neg %x {ps.origin = 9223372036854775807 : i64} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{(module_c2) has the attribute "ps.value" = "0", expected an i64 in [0, 2^40]}}
func.func @module_c2_argument(%x: tensor<4xf32> {ps.value = "0"}) attributes {ps.stage = 0 : i64} {
  return
}

// -----

// expected-error@+1 {{(module_c3) has more than 2^20 devices}}
ps.mesh @mesh <"dp" = 4294967296 : data, "tp" = 4294967296 : tensor>

// -----

func.func @evaluate(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{(module_c4) has phase update in @evaluate}}
  %0 = ps.neg %x {ps.phase = #ps.phase<update>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @micro_batch(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = ps.neg %x {ps.phase = #ps.phase<backward_input>} : tensor<4xf32>
  // expected-error@+1 {{(module_c4) of phase forward reads a value of phase backward_input}}
  %1 = ps.neg %0 {ps.phase = #ps.phase<forward>} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
// expected-error@+1 {{(module_c5) has a sharding over axis "tp", which the mesh lacks}}
func.func private @module_c5(tensor<4xf32> {ps.sharding = #ps.sharding<@mesh, [{"tp"}]>})

// -----

// The verifier of the op runs first. It computes the local type and ignores axes that the mesh
// lacks.
ps.mesh @mesh <"dp" = 2 : data>
rank.program @pp0 pp = 0 entry "step" {
  // expected-error@+1 {{type is 'tensor<2xf32>', but the global type and sharding give 'tensor<4xf32>'}}
  %0 = rank.input "x" micro_batch 0 : tensor<2xf32> of tensor<4xf32> as <@mesh, [{"tp"}]>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
// expected-error@+1 {{(module_c5) has 2 dims, but its sharding has 1}}
ps.variable parameter @module_c5_rank {ps.sharding = #ps.sharding<@mesh, [{}]>} : tensor<4x4xf32>
