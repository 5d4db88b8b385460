// Propagates seeds on variables and arguments through single ops and functions.
// RUN: ps-opt %s --split-input-file --ps-propagate-shardings --ps-verify-planned | FileCheck %s

// The all-reduce of a row parallel contraction precedes the addition of its bias.
// CHECK-LABEL: func.func @bias_after_the_reduction
// CHECK: ps.contract {{.*}}ps.shardings = [#ps.sharding<@mesh, [{}, {}]>]
// CHECK: ps.add {{.*}}ps.shardings = [#ps.sharding<@mesh, [{}, {}]>]
ps.mesh @mesh <"tp" = 2 : tensor>
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>} : tensor<8x16xf32>
ps.variable parameter @b : tensor<8xf32>
func.func @bias_after_the_reduction(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = ps.read @w : tensor<8x16xf32>
  %0 = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  %b = ps.read @b : tensor<8xf32>
  %1 = ps.broadcast %b dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %2 = ps.add %0, %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// Two partial sums are added first and reduced once. Function results are never partial.
// CHECK-LABEL: func.func @sum_of_partials
// CHECK-COUNT-2: ps.contract {{.*}}[{}, {}], partial = {"tp": sum}>]
// CHECK: ps.add {{.*}}ps.shardings = [#ps.sharding<@mesh, [{}, {}]>]
ps.mesh @mesh <"tp" = 2 : tensor>
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>} : tensor<8x16xf32>
func.func @sum_of_partials(%x: tensor<4x16xf32>, %y: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = ps.read @w : tensor<8x16xf32>
  %0 = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  %1 = ps.contract %y [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  %2 = ps.add %0, %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// Twin: a partial sum is reduced before a nonlinear op reads it.
// CHECK-LABEL: func.func @nonlinear_use
// CHECK: ps.contract {{.*}}ps.shardings = [#ps.sharding<@mesh, [{}, {}]>]
ps.mesh @mesh <"tp" = 2 : tensor>
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>} : tensor<8x16xf32>
func.func @nonlinear_use(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = ps.read @w : tensor<8x16xf32>
  %0 = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  %1 = ps.exp %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// A split of whole heads propagates through a reshape, also if the ranks do not divide the heads.
// CHECK-LABEL: func.func @heads
// CHECK: ps.reshape {{.*}}[{}, {"tp"}, {}]
// CHECK: ps.transpose {{.*}}[{"tp"}, {}, {}]
ps.mesh @mesh <"tp" = 4 : tensor>
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [(6 {"tp"} x 8), {}]>} : tensor<48x16xf32>
func.func @heads(%x: tensor<4x16xf32>) -> tensor<6x4x8xf32> {
  %w = ps.read @w : tensor<48x16xf32>
  %0 = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<48x16xf32>) -> tensor<4x48xf32>
  %1 = ps.reshape %0 : tensor<4x48xf32> -> tensor<4x6x8xf32>
  %2 = ps.transpose %1 [1, 0, 2] : tensor<4x6x8xf32> -> tensor<6x4x8xf32>
  return %2 : tensor<6x4x8xf32>
}

// -----

// Constants and broadcasts take the split of their user. A parameter is never split over a data
// axis.
// CHECK: ps.variable parameter @b {{.*}}#ps.sharding<@mesh, [{}, {}]>
// CHECK-LABEL: func.func @constants
// CHECK: ps.constant {{.*}}[{"dp"}, {}]
// CHECK: ps.read @b {{.*}}[{"dp"}, {}]
ps.mesh @mesh <"dp" = 2 : data>
ps.variable parameter @b : tensor<4x8xf32>
func.func @constants(%x: tensor<4x8xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>}) -> tensor<4x8xf32> {
  %c = ps.constant dense<2.0> : tensor<4x8xf32>
  %b = ps.read @b : tensor<4x8xf32>
  %0 = ps.mul %x, %c : tensor<4x8xf32>
  %1 = ps.add %0, %b : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// A constant whose users have different splits stays unsplit, as slicing a constant is free.
// CHECK-LABEL: func.func @shared_constant
// CHECK: ps.constant {{.*}}#ps.sharding<@mesh, [{}, {}]>
ps.mesh @mesh <"dp" = 2 : data>
func.func @shared_constant(%x: tensor<4x4xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>},
                           %y: tensor<4x4xf32> {ps.sharding = #ps.sharding<@mesh, [{}, {"dp"}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %c = ps.constant dense<2.0> : tensor<4x4xf32>
  %0 = ps.mul %x, %c : tensor<4x4xf32>
  %1 = ps.mul %y, %c : tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A gradient seeded with a split over dp is reduce-scattered in each micro-batch.
// CHECK-LABEL: func.func @scattered_gradient
// CHECK: ps.contract {{.*}}#ps.sharding<@mesh, [{"dp"}, {}]>
ps.mesh @mesh <"dp" = 2 : data>
ps.variable parameter @w : tensor<8x16xf32>
ps.variable gradient @w.grad of @w {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>} : tensor<8x16xf32>
func.func @scattered_gradient(%x: tensor<4x16xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>}, %g: tensor<4x8xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>}) {
  %0 = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  ps.accumulate @w.grad, %0 : tensor<8x16xf32>
  return
}
