// RUN: ps-opt %s -split-input-file -ps-outline-segments -ps-verify-partitioned | FileCheck %s

// Gathers of variables move before the run of their segment, which takes the gathered value as an
// input. Backward has its own gather. Both segments share one class.
module attributes {ps.level = #ps.level<partitioned>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @v {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<8xf32>
  ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<8xf32>
  // CHECK-LABEL: func.func @{{.*}}.forward(
  // CHECK-SAME: tensor<8xf32>, %{{[^:]*}}: tensor<8xf32>)
  // CHECK-NOT: ps.all_gather
  // CHECK: return
  // CHECK-LABEL: func.func @{{.*}}.backward_input(
  // CHECK-LABEL: func.func @stage0.micro_batch
  // CHECK: %[[V:.*]] = ps.read @v
  // CHECK-NEXT: %[[FV:.*]] = ps.all_gather %[[V]] {{.*}}forward
  // CHECK-NEXT: %[[Y:.*]] = rank.run @[[CLASS:.*]].forward segment 0(%[[FV]], %{{.*}})
  // CHECK-NEXT: %[[W:.*]] = ps.read @w
  // CHECK-NEXT: %[[FW:.*]] = ps.all_gather %[[W]] {{.*}}forward
  // CHECK-NEXT: %{{.*}} = rank.run @[[CLASS]].forward segment 1(%[[FW]], %[[Y]])
  // CHECK-NEXT: rank.run @{{.*}} segment 2
  // CHECK-NEXT: %[[BW:.*]] = ps.all_gather %[[W]] {{.*}}backward_input
  // CHECK-NEXT: rank.run @{{.*}}.backward_input segment 1(%[[BW]]
  func.func @micro_batch(%x: tensor<8xf32> {ps.name = "x"}) {
    %0 = ps.read @v {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
    %v = ps.all_gather %0 over ["dp"] dim 0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32> -> tensor<8xf32>
    %y = ps.mul %v, %x {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<8xf32>
    %1 = ps.read @w {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4xf32>
    %w = ps.all_gather %1 over ["dp"] dim 0 {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4xf32> -> tensor<8xf32>
    %z = ps.mul %w, %y {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<8xf32>
    %again = ps.all_gather %1 over ["dp"] dim 0 {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<4xf32> -> tensor<8xf32>
    %g = ps.exp %again {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<8xf32>
    ps.write @y, %z {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64} : tensor<8xf32>
    ps.write @x, %g {ps.phase = #ps.phase<backward_input>, ps.segment = 1 : i64} : tensor<8xf32>
    return
  }
  ps.variable buffer @x : tensor<8xf32>
  ps.variable buffer @y : tensor<8xf32>
}

// -----

// Twin: gathers of computed values, of variables that the function writes, or with users in two
// runs stay inside the run.
module attributes {ps.level = #ps.level<partitioned>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @v {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<8xf32>
  ps.variable buffer @b {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>} : tensor<8xf32>
  // CHECK-LABEL: func.func @stage0.micro_batch
  // CHECK-NOT: ps.all_gather
  // CHECK: return
  func.func @micro_batch(%x: tensor<4xf32> {ps.name = "x"}) {
    %0 = ps.read @v {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
    %sum = ps.add %0, %x {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
    %a = ps.all_gather %sum over ["dp"] dim 0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32> -> tensor<8xf32>
    %1 = ps.read @b {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32>
    %b = ps.all_gather %1 over ["dp"] dim 0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32> -> tensor<8xf32>
    %c = ps.add %a, %b {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<8xf32>
    %v = ps.all_gather %0 over ["dp"] dim 0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<4xf32> -> tensor<8xf32>
    %d = ps.mul %c, %v {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<8xf32>
    %e = ps.mul %d, %v {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<8xf32>
    ps.write @x, %e {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<8xf32>
    ps.write @b, %sum {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<4xf32>
    return
  }
  ps.variable buffer @x : tensor<8xf32>
}
