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
