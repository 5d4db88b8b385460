// RUN: ps-opt %s -ps-partition-pipeline | FileCheck %s --check-prefix=UNIFORM
// RUN: ps-opt %s -ps-partition-pipeline=method=flops | FileCheck %s --check-prefix=FLOPS
// RUN: ps-opt %s "-ps-partition-pipeline=method=flops chunks=2 placement=v" | FileCheck %s --check-prefix=CHUNKS
// RUN: ps-opt %s -ps-partition-pipeline=method=parameters | FileCheck %s --check-prefix=PARAMETERS
// RUN: ps-opt %s -ps-partition-pipeline=method=tail | FileCheck %s --check-prefix=NAMES
// RUN: ps-opt %s -ps-partition-pipeline=method=flops -ps-explain-pipeline | FileCheck %s --check-prefix=WORDS

// Four layers with all flops and parameters in the last one. Balanced by weight, the last layer is
// a stage of its own. Balanced by count, each stage has two layers.
// UNIFORM: module attributes {{.*}}ps.num_chunks = 1 : i64, ps.placement = "loop", {{.*}}ps.stage_cuts = array<i64: 2>
// FLOPS: module attributes {{.*}}ps.stage_cuts = array<i64: 3>
// CHUNKS: module attributes {{.*}}ps.num_chunks = 2 : i64, ps.placement = "v", {{.*}}ps.stage_cuts = array<i64: 1, 2, 3>
// PARAMETERS: module attributes {{.*}}ps.stage_cuts = array<i64: 1>
// NAMES: module attributes {{.*}}ps.stage_cuts = array<i64: 3>
// WORDS: pipeline: 2 stages of 4 layers
// WORDS: layer{{ +}}stage{{ +}}pp{{ +}}parameters
// WORDS: head{{ +}}0{{ +}}0{{ +}}0
// WORDS: tail{{ +}}1{{ +}}1{{ +}}64
module {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  ps.variable parameter @w : tensor<8x8xf32>
  func.func @micro_batch(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = ps.tanh %x {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4x8xf32> loc("head")
    %1 = ps.tanh %0 {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4x8xf32> loc("h.0")
    %2 = ps.tanh %1 {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64} : tensor<4x8xf32> loc("h.1")
    %w = ps.read @w : tensor<8x8xf32>
    %3 = ps.contract %2 [0, 1], %w [1, 2] -> [0, 2] {ps.phase = #ps.phase<forward>, ps.segment = 3 : i64} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("tail")
    return %3 : tensor<4x8xf32>
  }
}
