// RUN: ps-opt %s -split-input-file -verify-diagnostics -ps-outline-segments

func.func @micro_batch(%x: tensor<4xf32>) {
  // expected-error@+1 {{has no phase or no segment; run ps-find-segments before partitioning}}
  %0 = ps.exp %x : tensor<4xf32>
  return
}

// -----

func.func @micro_batch(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{is in a later run than a user of its result; number segments in dataflow order}}
  %0 = ps.exp %x {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4xf32>
  %1 = ps.exp %0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
  return %1 : tensor<4xf32>
}
