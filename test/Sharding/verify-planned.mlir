// Modules that ps-verify-planned rejects.
// RUN: ps-opt %s --split-input-file --ps-verify-planned -verify-diagnostics

ps.mesh @mesh <"dp" = 2 : data>
func.func @missing(%x: tensor<4xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>}) -> tensor<4xf32> {
  // expected-error @+1 {{'ps.exp' op result 0 has no sharding (planned_c2)}}
  %0 = ps.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
// expected-error @+1 {{argument 0 is sharded over axis "tp", which the mesh lacks (planned_c3)}}
func.func @unknown_axis(%x: tensor<4xf32> {ps.sharding = #ps.sharding<@mesh, [{"tp"}]>}) {
  return
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
func.func @factors(%x: tensor<4xf32> {ps.sharding = #ps.sharding<@mesh, [{}]>}) -> tensor<4xf32> {
  // expected-error @+1 {{result 0 has size 4 in dim 0, but its factors multiply to 6 (planned_c4)}}
  %0 = ps.exp %x {ps.shardings = [#ps.sharding<@mesh, [(3 x 2 {"dp"})]>]} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
func.func @not_partial(%x: tensor<4xf32> {ps.sharding = #ps.sharding<@mesh, [{}]>}) -> tensor<4xf32> {
  // expected-error @+1 {{result 0 is marked partial over "dp", but the op computes}}
  %0 = ps.exp %x {ps.shardings = [#ps.sharding<@mesh, [{}], partial = {"dp": sum}>]} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
func.func @returns_partial(%x: tensor<4xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>}) -> tensor<f32> {
  %0 = ps.reduce sum %x dims [0] {ps.shardings = [#ps.sharding<@mesh, [], partial = {"dp": sum}>]} : tensor<4xf32> -> tensor<f32>
  // expected-error @+1 {{returns a value that is partial over "dp" (planned_c6)}}
  return %0 : tensor<f32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
// expected-note @+1 {{variable declared here}}
ps.variable accumulator @loss.sum {ps.sharding = #ps.sharding<@mesh, []>} : tensor<f32>
func.func @accumulates_partial(%x: tensor<4xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>}) {
  %0 = ps.reduce sum %x dims [0] {ps.shardings = [#ps.sharding<@mesh, [], partial = {"dp": sum}>]} : tensor<4xf32> -> tensor<f32>
  // expected-error @+1 {{they are partial over different axes (planned_c7)}}
  ps.accumulate @loss.sum, %0 : tensor<f32>
  return
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
// expected-error @+1 {{has ops with and without a segment (planned_c8)}}
func.func @segments(%x: tensor<4xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>}) -> tensor<4xf32> {
  %0 = ps.exp %x {ps.segment = 0 : i64, ps.shardings = [#ps.sharding<@mesh, [{"dp"}]>]} : tensor<4xf32>
  %1 = ps.exp %0 {ps.shardings = [#ps.sharding<@mesh, [{"dp"}]>]} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data, "pp" = 2 : pipeline>
// expected-error @+1 {{variable is sharded over axis "pp" of kind pipeline, whose devices run different stages; axes that split tensors are "dp" (planned_c9)}}
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"pp"}]>} : tensor<4xf32>

// -----

// A variable is partial over the pipeline axis.
ps.mesh @mesh <"pp" = 2 : pipeline>
// expected-error @+1 {{variable is sharded over axis "pp" of kind pipeline, whose devices run different stages; axes that split tensors are none (planned_c9)}}
ps.variable accumulator @loss.sum {ps.sharding = #ps.sharding<@mesh, [], partial = {"pp": sum}>} : tensor<f32>

// -----

// expected-error @+1 {{the module has no ps.mesh; run ps-set-mesh first (planned_c1)}}
module {
}
