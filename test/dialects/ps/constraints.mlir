// RUN: ps-opt %s -split-input-file -verify-diagnostics
// Checks the numbered constraints of constants, reductions, collectives and fused ops.

func.func @iota_c1() {
  // expected-error @below {{dim 1 is out of range for a tensor with 1 dim (iota_c1)}}
  %0 = ps.iota dim 1 : tensor<4xi64>
  return
}

// -----

func.func @reduce_c1(%a: tensor<2x3xf32>) {
  // expected-error @below {{dims [1, 0] are not increasing dims of 'tensor<2x3xf32>' (reduce_c1)}}
  %0 = ps.reduce sum %a dims [1, 0] : tensor<2x3xf32> -> tensor<f32>
  return
}

// -----

func.func @reduce_c2(%a: tensor<2x3xf32>) {
  // expected-error @below {{has a result of type 'tensor<3xf32>', expected 'tensor<2xf32>' (reduce_c2)}}
  %0 = ps.reduce max %a dims [1] : tensor<2x3xf32> -> tensor<3xf32>
  return
}

// -----

// expected-note @below {{mesh declared here}}
ps.mesh @mesh <"dp" = 2 : data>
func.func @collective_c1(%a: tensor<4xf32>) {
  // expected-error @below {{has the axis "tp", which the mesh lacks (collective_c1)}}
  %0 = ps.all_reduce sum %a over ["tp"] : tensor<4xf32>
  return
}

// -----

func.func @collective_c1_twice(%a: tensor<4xf32>) {
  // expected-error @below {{lists the axis "tp" twice (collective_c1)}}
  %0 = ps.all_reduce sum %a over ["tp", "tp"] : tensor<4xf32>
  return
}

// -----

ps.mesh @mesh <"tp" = 2 : tensor>
func.func @reduce_scatter_c1(%a: tensor<4xf32>) {
  // expected-error @below {{'tensor<4xf32>' does not consist of 2 parts of 'tensor<3xf32>' along dim 0 (reduce_scatter_c1)}}
  %0 = ps.reduce_scatter sum %a over ["tp"] dim 0 : tensor<4xf32> -> tensor<3xf32>
  return
}

// -----

ps.mesh @mesh <"tp" = 2 : tensor>
func.func @all_gather_c1(%a: tensor<4xf32>) {
  // expected-error @below {{'tensor<4xf32>' does not consist of 2 parts of 'tensor<4xf32>' along dim 0 (all_gather_c1)}}
  %0 = ps.all_gather %a over ["tp"] dim 0 : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

ps.mesh @mesh <"tp" = 2 : tensor>
func.func @all_to_all_c1(%a: tensor<3x4xf32>) {
  // expected-error @below {{splits dim 0 of 'tensor<3x4xf32>' over 2 shards, but the size of the dim is not divisible by this number (all_to_all_c1)}}
  %0 = ps.all_to_all %a over ["tp"] split 0 concat 1 : tensor<3x4xf32> -> tensor<1x8xf32>
  return
}

// -----

ps.mesh @mesh <"tp" = 2 : tensor>
func.func @all_to_all_c2(%a: tensor<4x4xf32>) {
  // expected-error @below {{has type 'tensor<2x9xf32>', expected 'tensor<2x8xf32>' (all_to_all_c2)}}
  %0 = ps.all_to_all %a over ["tp"] split 0 concat 1 : tensor<4x4xf32> -> tensor<2x9xf32>
  return
}

// -----

ps.mesh @mesh <"tp" = 2 : tensor>
func.func @permute_c1(%a: tensor<4xf32>) {
  // expected-error @below {{targets are not a permutation of the members (permute_c1)}}
  %0 = ps.permute %a over ["tp"] to [1, 1] : tensor<4xf32>
  return
}

// -----

ps.mesh @mesh <"tp" = 2 : tensor>
func.func @permute_c1_count(%a: tensor<4xf32>) {
  // expected-error @below {{has 3 targets for 2 members (permute_c1)}}
  %0 = ps.permute %a over ["tp"] to [1, 2, 0] : tensor<4xf32>
  return
}

// -----

func.func @shard_slice_c1(%a: tensor<4xf32>) {
  // expected-error @below {{dim 1 is out of range for a tensor with 1 dim (shard_slice_c1)}}
  %0 = ps.shard_slice %a over ["tp"] dim 1 : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

ps.mesh @mesh <"tp" = 2 : tensor>
func.func @shard_slice_c2(%a: tensor<4xf32>) {
  // expected-error @below {{gives 2 shards of 'tensor<1xf32>' along dim 0 of 'tensor<4xf32>', which do not cover the dim (shard_slice_c2)}}
  %0 = ps.shard_slice %a over ["tp"] dim 0 : tensor<4xf32> -> tensor<1xf32>
  return
}

// -----

func.func @fused_c1(%a: tensor<4xf32>) {
  // expected-error @below {{block takes 'tensor<5xf32>', inputs are 'tensor<4xf32>' (fused_c1)}}
  %0 = ps.fused (%a) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%b: tensor<5xf32>):
    %c = ps.exp %b : tensor<5xf32>
    ps.yield %c : tensor<5xf32>
  }
  return
}

// -----

func.func @fused_c2(%a: tensor<4xf32>) {
  // expected-error @below {{yields 'tensor<4xf32>', results are 'tensor<5xf32>' (fused_c2)}}
  %0 = ps.fused (%a) : (tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%b: tensor<4xf32>):
    ps.yield %b : tensor<4xf32>
  }
  return
}

// -----

// wait_c1
func.func @wait_c1(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @+1 {{defined here}}
  %0 = ps.exp %a : tensor<4xf32>
  // expected-error @+1 {{operand is not the result of a collective (wait_c1)}}
  %1 = ps.wait %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// wait_c2
ps.mesh @mesh <"tp" = 2 : tensor>
func.func @wait_c2(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-note @+1 {{started here}}
  %0 = ps.all_reduce sum %a over ["tp"] : tensor<4xf32>
  // expected-error @+1 {{operand has other uses (wait_c2)}}
  %1 = ps.wait %0 : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
