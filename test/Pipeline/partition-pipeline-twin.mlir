// RUN: ps-opt %s -ps-partition-pipeline=method=flops -ps-explain-pipeline | FileCheck %s

// Twin: without a pipeline axis there are no stages to cut.
// CHECK-NOT: pipeline:
// CHECK-NOT: ps.stage_cuts
// CHECK: ps.mesh @mesh <"dp" = 2 : data>
module {
  ps.mesh @mesh <"dp" = 2 : data>
  func.func @micro_batch(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = ps.tanh %x {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
