// RUN: ps-opt %s "-ps-autodiff=loss=none differentiate=y" -ps-verify-training | FileCheck %s

// RUN: ps-opt %s "-ps-autodiff=loss=none differentiate=y scale-loss=true" "-ps-optimizer=optimizer=sgd(lr=1)" -ps-verify-training | FileCheck %s --check-prefix=SCALE

// The cotangents of the host are multiplied by the loss scale. The update divides by the scale and
// skips non-finite gradients.
// SCALE: ps.variable optimizer @loss_scale of @w init dense<6.553600e+04> : tensor<f32>
// SCALE-LABEL: func.func @micro_batch(
// SCALE-SAME: %[[DY:arg[0-9]+]]: tensor<2x4xf32> {ps.cotangent = "y"}
// SCALE: %[[S:.*]] = ps.read @loss_scale
// SCALE: %[[B:.*]] = ps.broadcast %[[S]]
// SCALE: %[[SCALED:.*]] = ps.mul %[[DY]], %[[B]]
// SCALE: ps.contract %[[SCALED]] [0, 2]
// SCALE-LABEL: func.func @update() {
// SCALE: %[[S:.*]] = ps.read @loss_scale
// SCALE: %[[B:.*]] = ps.broadcast %[[S]]
// SCALE: ps.div %{{.*}}, %[[B]]
// SCALE: ps.write @loss_scale
// SCALE: ps.write @w, %{{.*}} if %
// SCALE: return

// A tied parameter is accumulated once per use. Without a loss, the outputs stay results.
ps.variable parameter @w names ["w", "tied"] : tensor<4x4xf32>

// CHECK-LABEL: func.func @micro_batch(
// CHECK-SAME: , %[[DY:arg[0-9]+]]: tensor<2x4xf32> {ps.cotangent = "y"}) -> (tensor<2x4xf32> {ps.name = "y"}, tensor<2x4xf32> {ps.name = "h"}) {
// CHECK-NOT: @loss
// CHECK: %[[DH:.*]] = ps.contract %[[DY]] [0, 2], %{{.*}}ps.phase = #ps.phase<backward_input>
// CHECK: %[[A:.*]] = ps.contract %[[DY]] [0, 2], %{{.*}}ps.phase = #ps.phase<backward_weight>
// CHECK: %[[B:.*]] = ps.contract %[[DH]] [0, 2], %{{.*}}ps.phase = #ps.phase<backward_weight>
// CHECK: ps.accumulate @w.grad, %[[A]]
// CHECK: ps.accumulate @w.grad, %[[B]]
// CHECK-LABEL: func.func @update() {
// CHECK-NEXT: return
func.func @forward(%x: tensor<2x4xf32>) -> (tensor<2x4xf32> {ps.name = "y"}, tensor<2x4xf32> {ps.name = "h"}) {
  %w = ps.read @w : tensor<4x4xf32>
  %h = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %y = ps.contract %h [0, 1], %w [2, 1] -> [0, 2] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %y, %h : tensor<2x4xf32>, tensor<2x4xf32>
}
