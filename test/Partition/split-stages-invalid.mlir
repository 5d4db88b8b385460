// RUN: ps-opt %s -verify-diagnostics -split-input-file -ps-split-stages

// The update multiplies parameters of two stages, and no pipeline coordinate holds both.
module attributes {ps.stage_cuts = array<i64: 1>, ps.num_chunks = 1 : i64, ps.placement = "loop"} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  ps.variable parameter @t : tensor<f32>
  ps.variable parameter @v : tensor<f32>
  func.func @micro_batch(%x: tensor<f32> {ps.name = "x"}) -> tensor<f32> {
    %t = ps.read @t : tensor<f32>
    %v = ps.read @v : tensor<f32>
    %0 = ps.mul %x, %t {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<f32>
    %1 = ps.mul %0, %v {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<f32>
    return %1 : tensor<f32>
  }
  func.func @update() {
    %t = ps.read @t {ps.phase = #ps.phase<update>} : tensor<f32>
    %v = ps.read @v {ps.phase = #ps.phase<update>} : tensor<f32>
    // expected-error@+1 {{combines parameters "t" and "v" in the update; with a pipeline, only sums may combine several parameters, even parameters of one stage}}
    %0 = ps.mul %t, %v {ps.phase = #ps.phase<update>} : tensor<f32>
    ps.write @t, %0 {ps.phase = #ps.phase<update>} : tensor<f32>
    return
  }
}

// -----

// The update multiplies two parameters of stage 0.
module attributes {ps.stage_cuts = array<i64: 1>, ps.num_chunks = 1 : i64, ps.placement = "loop"} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  ps.variable parameter @t : tensor<f32>
  ps.variable parameter @v : tensor<f32>
  func.func @micro_batch(%x: tensor<f32> {ps.name = "x"}) -> tensor<f32> {
    %t = ps.read @t : tensor<f32>
    %v = ps.read @v : tensor<f32>
    %0 = ps.mul %x, %t {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<f32>
    %1 = ps.mul %0, %v {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<f32>
    %2 = ps.exp %1 {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<f32>
    return %2 : tensor<f32>
  }
  func.func @update() {
    %t = ps.read @t {ps.phase = #ps.phase<update>} : tensor<f32>
    %v = ps.read @v {ps.phase = #ps.phase<update>} : tensor<f32>
    // expected-error@+1 {{combines parameters "t" and "v" in the update; with a pipeline, only sums may combine several parameters, even parameters of one stage}}
    %0 = ps.mul %t, %v {ps.phase = #ps.phase<update>} : tensor<f32>
    ps.write @t, %0 {ps.phase = #ps.phase<update>} : tensor<f32>
    return
  }
}
