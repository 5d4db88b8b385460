// A contracted dim stays split over the axes that both operands share. Only the other axes are
// gathered.
// RUN: ps-opt %s --ps-partition --ps-simplify-collectives | FileCheck %s

ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>

// CHECK-LABEL: func.func @samples_and_positions
// CHECK-NOT: ps.all_gather
// CHECK: %[[X:.*]] = ps.all_gather %{{.*}} over ["tp"] dim 1
// CHECK-NOT: ps.all_gather
// CHECK: ps.contract %{{.*}} : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<8x8xf32>
// CHECK: ps.all_reduce sum %{{.*}} over ["dp"]
func.func @samples_and_positions(%x: tensor<64x8xf32> {ps.sharding = #ps.sharding<@mesh, [(4 {"dp"} x 16 {"tp"}), {}]>}, %y: tensor<64x8xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>}) -> tensor<8x8xf32> {
  %0 = ps.contract %x [0, 1], %y [0, 2] -> [1, 2] {ps.shardings = [#ps.sharding<@mesh, [{}, {}]>]} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// Twin: the operands split the dim by the same axis in different ways, so both are gathered.
// CHECK-LABEL: func.func @axis_split_differently
// CHECK: ps.all_gather %arg0 over ["tp", "dp"] dim 0
// CHECK: ps.all_gather %{{.*}} over ["dp"] dim 1
// CHECK: ps.contract %{{.*}} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
func.func @axis_split_differently(%x: tensor<64x8xf32> {ps.sharding = #ps.sharding<@mesh, [{"tp", "dp"}, {}]>}, %y: tensor<64x8xf32> {ps.sharding = #ps.sharding<@mesh, [(2 x 32 {"dp"}), {}]>}) -> tensor<8x8xf32> {
  %0 = ps.contract %x [0, 1], %y [0, 2] -> [1, 2] {ps.shardings = [#ps.sharding<@mesh, [{}, {}]>]} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
