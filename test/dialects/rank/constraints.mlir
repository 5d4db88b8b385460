// RUN: ps-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{(program_c1) pipeline coordinate is 1, but the mesh has 1 pipeline coordinates}}
rank.program @program_c1 pp = 1 entry "step" {
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
rank.program @input_c1 pp = 0 entry "step" {
  // expected-error@+1 {{(input_c1) type is 'tensor<8xf32>', but the global type and sharding give 'tensor<4xf32>'}}
  %x = rank.input "x" micro_batch 0 : tensor<8xf32> of tensor<8xf32> as #ps.sharding<@mesh, [{"dp"}]>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
rank.program @output_c1 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<8xf32>
  // expected-error@+1 {{(output_c1) type is 'tensor<8xf32>', but the global type and sharding give 'tensor<4xf32>'}}
  rank.output "y" micro_batch 0 %x : tensor<8xf32> of tensor<8xf32> as #ps.sharding<@mesh, [{"dp"}]>
}

// -----

func.func @run_c1() {
  // expected-error@+1 {{(run_c1) @nothing is not a function}}
  rank.run @nothing () : () -> ()
  return
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @run_c2(%x: tensor<8xf32>) {
  // expected-error@+1 {{(run_c2) operands have types 'tensor<8xf32>', the function takes 'tensor<4xf32>'}}
  %0 = rank.run @f (%x) : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @run_c2_results(%x: tensor<4xf32>) {
  // expected-error@+1 {{(run_c2) results have types 'tensor<8xf32>', the function returns 'tensor<4xf32>'}}
  %0 = rank.run @f (%x) : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%w: !ps.ref<tensor<4xf32>>) {
  return
}
func.func @run_c3_count() {
  // expected-error@+1 {{(run_c3) binds 0 variables, the function takes 1}}
  rank.run @f () : () -> ()
  return
}

// -----

func.func @f(%w: !ps.ref<tensor<4xf32>>) {
  return
}
func.func @run_c3_symbol() {
  // expected-error@+1 {{(run_c3) @f is not a variable}}
  rank.run @f () variables [@f] : () -> ()
  return
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
// expected-note@+1 {{variable declared here}}
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<4xf32>
func.func @f(%w: !ps.ref<tensor<4xf32>>) {
  return
}
func.func @run_c3_type() {
  // expected-error@+1 {{(run_c3) variable @w has local type 'tensor<2xf32>', the function takes 'tensor<4xf32>'}}
  rank.run @f () variables [@w] : () -> ()
  return
}

// -----

func.func @f(%k: i64, %mb: i64) {
  return
}
func.func @run_c4() {
  // expected-error@+1 {{(run_c4) passes 1 i64 arguments (keys and the micro-batch), but the function takes 2}}
  rank.run @f () keys [7] : () -> ()
  return
}

// -----

rank.program @start_c1 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<8xf32>
  // expected-error@+1 {{(start_c1) collective is "gossip", expected all_reduce, reduce_scatter or all_gather}}
  %r, %t = rank.start "gossip" (%x) axes ["dp"] queue "dp" : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

rank.program @start_c1_kind pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<8xf32>
  // expected-error@+1 {{(start_c1) "all_reduce" needs a kind (sum, max, min)}}
  %r, %t = rank.start "all_reduce" (%x) axes ["dp"] queue "dp" : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

rank.program @start_c2 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<8xf32>
  // expected-error@+1 {{(start_c2) all_reduce has operands of 'tensor<8xf32>' and results of 'tensor<4xf32>'}}
  %r, %t = rank.start "all_reduce" (%x) kind sum axes ["dp"] queue "dp" : (tensor<8xf32>) -> tensor<4xf32>
}

// -----

rank.program @start_c2_count pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<8xf32>
  // expected-error@+1 {{(start_c2) has 2 operands and 1 result}}
  %r, %t = rank.start "all_reduce" (%x, %x) kind sum axes ["dp"] queue "dp" : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
rank.program @start_c3 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<8xf32>
  // expected-error@+1 {{(start_c3) the mesh has no axis "tp"}}
  %r, %t = rank.start "all_reduce" (%x) kind sum axes ["tp"] queue "tp" : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
rank.program @start_c3_twice pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<8xf32>
  // expected-error@+1 {{(start_c3) axis "dp" occurs twice}}
  %r, %t = rank.start "all_reduce" (%x) kind sum axes ["dp", "dp"] queue "dp" : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
rank.program @start_c4 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<8xf32>
  // expected-error@+1 {{(start_c4) attribute 'dims' has 0 entries, expected 1}}
  %r, %t = rank.start "all_gather" (%x) axes ["dp"] queue "dp" : (tensor<8xf32>) -> tensor<16xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
rank.program @start_c5 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(start_c5) 'tensor<12xf32>' does not consist of 2 parts of 'tensor<4xf32>' along dim 0}}
  %r, %t = rank.start "all_gather" (%x) axes ["dp"] dims [0] queue "dp" : (tensor<4xf32>) -> tensor<12xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
rank.program @start_c5_dim pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(start_c5) dim 1 is out of range for 'tensor<2xf32>'}}
  %r, %t = rank.start "reduce_scatter" (%x) kind sum axes ["dp"] dims [1] queue "dp" : (tensor<4xf32>) -> tensor<2xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
rank.program @wait_c1 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<8xf32>
  %r, %t = rank.start "all_reduce" (%x) kind sum axes ["dp"] queue "dp" : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error@+1 {{(wait_c1) the token has several waits}}
  rank.wait %t
  rank.wait %t
}
