// RUN: not ps-opt %s -ps-partition-pipeline=chunks=2 2>&1 | FileCheck %s --check-prefix=MORE
// RUN: not ps-opt %s -ps-partition-pipeline=method=h.7 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not ps-opt %s -ps-partition-pipeline=method=h.1,tail 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not ps-opt %s -ps-partition-pipeline=chunks=0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not ps-opt %s -ps-partition-pipeline=placement=ring 2>&1 | FileCheck %s --check-prefix=PLACE

// MORE: error: --num-chunks 2: the pipeline has 4 stages{{.*}}3 layers
// NAME: error: --split-method h.7: {{.*}}'h.7'{{.*}}'h.1'
// COUNT: error: {{.*}}2 stages
// ZERO: error: --num-chunks 0 is too small; use at least 1 chunk per pipeline coordinate
// PLACE: error: placement is 'ring'; expected loop or v
module {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  func.func @micro_batch(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = ps.tanh %x {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4x8xf32> loc("h.0")
    %1 = ps.tanh %0 {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4x8xf32> loc("h.1")
    %2 = ps.tanh %1 {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64} : tensor<4x8xf32> loc("tail")
    return %2 : tensor<4x8xf32>
  }
}
