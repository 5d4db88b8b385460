// RUN: ps-opt %s -ps-split-stages | FileCheck %s

// Twin: one stage has nothing to split.
// CHECK: func.func @micro_batch
// CHECK-NEXT: ps.iota
// CHECK-NEXT: ps.tanh {{.*}}ps.segment = 0
// CHECK-NEXT: return
// CHECK: func.func @update()
module {
  ps.mesh @mesh <"dp" = 2 : data>
  func.func @micro_batch() -> tensor<4xf32> {
    %0 = ps.iota dim 0 {ps.phase = #ps.phase<forward>} : tensor<4xf32>
    %1 = ps.tanh %0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func @update() {
    return
  }
}
