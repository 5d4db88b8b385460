// RUN: ps-opt %s -ps-autodiff -ps-verify-training | FileCheck %s
// RUN: ps-opt %s -ps-autodiff=freeze=second.* | FileCheck %s --check-prefix=FROZEN
// RUN: ps-opt %s "-ps-autodiff=freeze=*" | FileCheck %s --check-prefix=NOTHING
// RUN: ps-opt %s -ps-autodiff=loss-average=micro-batch | FileCheck %s --check-prefix=AVERAGE

// Twin: if all parameters are frozen, there is no gradient and no backward.
// NOTHING-NOT: ps.variable gradient
// NOTHING-NOT: backward
// NOTHING: func.func @micro_batch
// NOTHING-NOT: backward

// CHECK: module attributes {ps.level = #ps.level<training>, ps.loss_average = "step", ps.row_sums}
module attributes {ps.level = #ps.level<imported>} {
  ps.variable parameter @first.weight : tensor<8x4xf32>
  ps.variable parameter @second.weight : tensor<5x8xf32>
  ps.variable buffer @scale : tensor<8xf32>
  // CHECK-DAG: ps.variable gradient @first.weight.grad of @first.weight : tensor<8x4xf32>
  // CHECK-DAG: ps.variable gradient @second.weight.grad of @second.weight : tensor<5x8xf32>
  // CHECK-DAG: ps.variable accumulator @loss.sum : tensor<f32>
  // CHECK-DAG: ps.variable accumulator @loss.count : tensor<f32>
  // CHECK-NOT: @scale.grad
  // FROZEN: ps.variable parameter @second.weight frozen
  // FROZEN-NOT: @second.weight.grad

  // CHECK-LABEL: func.func @micro_batch(
  // CHECK-SAME: %[[X:.*]]: tensor<2x4xf32> {ps.name = "x"}, %[[T:.*]]: tensor<2xi64> {ps.name = "labels"}) {
  // CHECK: ps.contract {{.*}}ps.phase = #ps.phase<forward>
  // CHECK: %[[SUM:.*]] = ps.reduce sum {{.*}}ps.phase = #ps.phase<forward>
  // CHECK: %[[COUNT:.*]] = ps.reduce sum {{.*}}ps.phase = #ps.phase<forward>
  // CHECK-NOT: ps.div
  // CHECK: ps.accumulate @loss.sum, %[[SUM]]
  // CHECK: ps.accumulate @loss.count, %[[COUNT]]
  // CHECK: ps.cross_entropy_grad {{.*}}ps.origin = [[CE:[0-9]+]] : i64, ps.phase = #ps.phase<backward_input>
  // CHECK: ps.contract {{.*}}ps.phase = #ps.phase<backward_input>{{.*}} -> tensor<2x8xf32>
  // CHECK: %[[G2:.*]] = ps.contract {{.*}}ps.phase = #ps.phase<backward_weight>{{.*}} -> tensor<5x8xf32>
  // CHECK-NOT: -> tensor<2x4xf32>
  // CHECK: %[[G1:.*]] = ps.contract {{.*}}ps.phase = #ps.phase<backward_weight>{{.*}} -> tensor<8x4xf32>
  // CHECK-DAG: ps.accumulate @second.weight.grad, %[[G2]] {{.*}}ps.phase = #ps.phase<backward_weight>
  // CHECK-DAG: ps.accumulate @first.weight.grad, %[[G1]] {{.*}}ps.phase = #ps.phase<backward_weight>
  // CHECK: return{{$}}
  // FROZEN-LABEL: func.func @micro_batch(
  // FROZEN-NOT: ) -> tensor<5x8xf32>
  // AVERAGE-LABEL: func.func @micro_batch(
  // AVERAGE: %[[LOSS:.*]] = ps.div
  // AVERAGE: ps.accumulate @loss.sum, %[[LOSS]]

  // CHECK-LABEL: func.func @evaluate(
  // CHECK-SAME: -> (tensor<f32> {ps.name = "loss"}, tensor<2x5xf32> {ps.name = "logits"}, tensor<f32> {ps.name = "loss.sum"}, tensor<f32> {ps.name = "loss.count"})
  // CHECK-NOT: backward
  // CHECK: ps.dropout {{.*}}ps.phase = #ps.phase<evaluate>, training = false
  // CHECK: return

  // CHECK-LABEL: func.func @update() {
  // CHECK-DAG: %[[S:.*]] = ps.read @loss.sum
  // CHECK-DAG: %[[C:.*]] = ps.read @loss.count
  // CHECK: %[[MEAN:.*]] = ps.div %[[S]], %[[C]]
  // CHECK: %[[LOSS:.*]] = ps.select %{{.*}}, %[[MEAN]]
  // CHECK: ps.write @loss, %[[LOSS]]
  // CHECK-NOT: func.func @forward
  func.func @forward(%x: tensor<2x4xf32> {ps.name = "x"}, %t: tensor<2xi64> {ps.name = "labels"})
      -> (tensor<f32> {ps.name = "loss"}, tensor<2x5xf32> {ps.name = "logits"}) {
    %w1 = ps.read @first.weight : tensor<8x4xf32>
    %w2 = ps.read @second.weight : tensor<5x8xf32>
    %s = ps.read @scale : tensor<8xf32>
    %h = ps.contract %x [0, 1], %w1 [2, 1] -> [0, 2] : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
    %b = ps.broadcast %s dims [1] : tensor<8xf32> -> tensor<2x8xf32>
    %m = ps.mul %h, %b : tensor<2x8xf32>
    %d = ps.dropout %m p 0.1 {ps.key = 6 : i64} : tensor<2x8xf32>
    %y = ps.contract %d [0, 1], %w2 [2, 1] -> [0, 2] : (tensor<2x8xf32>, tensor<5x8xf32>) -> tensor<2x5xf32>
    %l, %lse = ps.cross_entropy %y, %t ignore -100 : tensor<2x5xf32>, tensor<2xi64> -> tensor<2xf32>
    %ignored = ps.constant dense<-100> : tensor<2xi64>
    %valid = ps.compare ne %t, %ignored : tensor<2xi64> -> tensor<2xi1>
    %one = ps.convert %valid : tensor<2xi1> -> tensor<2xf32>
    %sum = ps.reduce sum %l dims [0] : tensor<2xf32> -> tensor<f32>
    %count = ps.reduce sum %one dims [0] : tensor<2xf32> -> tensor<f32>
    %loss = ps.div %sum, %count : tensor<f32>
    return %loss, %y : tensor<f32>, tensor<2x5xf32>
  }
}
