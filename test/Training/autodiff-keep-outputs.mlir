// RUN: ps-opt %s "-ps-autodiff=loss=loss keep-outputs=h;turned" -ps-verify-training | FileCheck %s
// RUN: ps-opt %s "-ps-autodiff=loss=loss keep-outputs=all" | FileCheck %s --check-prefix=ALL
// RUN: ps-opt %s "-ps-autodiff=loss=loss" | FileCheck %s --check-prefix=NONE
// RUN: ps-opt %s "-ps-autodiff=inference=true keep-outputs=h" | FileCheck %s --check-prefix=INFERENCE

// RUN: not ps-opt %s "-ps-autodiff=loss=loss keep-outputs=norm" 2>&1 | FileCheck %s --check-prefix=NORM
// RUN: not ps-opt %s "-ps-autodiff=loss=loss keep-outputs=loss" 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: not ps-opt %s "-ps-autodiff=loss=loss keep-outputs=x" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not ps-opt %s "-ps-autodiff=loss=none keep-outputs=h" 2>&1 | FileCheck %s --check-prefix=CALLS

// The results have the order of the model's outputs, and their batch dims.
// CHECK-LABEL: func.func @micro_batch(
// CHECK-SAME: -> (tensor<2x4xf32> {ps.name = "h"}, tensor<4x2xf32> {ps.batch_dim = 1 : i64, ps.name = "turned"}) {
// CHECK: ps.accumulate @output.norm
// CHECK: return %{{.*}}, %{{.*}} : tensor<2x4xf32>, tensor<4x2xf32>

// Twice the same output, outputs without the batch, and no scalars.
// ALL-LABEL: func.func @micro_batch(
// ALL-SAME: -> (tensor<2x4xf32> {ps.name = "h"}, tensor<4x2xf32> {ps.batch_dim = 1 : i64, ps.name = "turned"}, tensor<4x4xf32> {ps.batch_dim = -1 : i64, ps.name = "w"}) {

// NONE-LABEL: func.func @micro_batch(
// NONE-SAME: %{{.*}}: tensor<2x4xf32> {ps.name = "x"}) {

// INFERENCE-NOT: func.func @micro_batch(

// NORM: error: --keep-outputs norm: the output of type 'tensor<f32>' has no batch dim, so the values of several micro-batches cannot be joined; remove it from the list
// LOSS: error: --keep-outputs loss: the output is the loss, which every step returns; remove it from the list
// UNKNOWN: error: --keep-outputs x: no such output; outputs are 0 "loss" : 'tensor<f32>', 1 "h"
// CALLS: error: --keep-outputs cannot be combined with --loss none: the entry "forward" returns all outputs

ps.variable parameter @w : tensor<4x4xf32>

func.func @forward(%x: tensor<2x4xf32> {ps.name = "x"}) -> (tensor<f32> {ps.name = "loss"}, tensor<2x4xf32> {ps.name = "h"}, tensor<4x2xf32> {ps.name = "turned"}, tensor<f32> {ps.name = "norm"}, tensor<4x4xf32> {ps.name = "w"}, tensor<2x4xf32> {ps.name = "h"}) {
  %w = ps.read @w : tensor<4x4xf32>
  %h = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %turned = ps.transpose %h [1, 0] : tensor<2x4xf32> -> tensor<4x2xf32>
  %loss = ps.reduce sum %h dims [0, 1] : tensor<2x4xf32> -> tensor<f32>
  %square = ps.mul %h, %h : tensor<2x4xf32>
  %norm = ps.reduce sum %square dims [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %loss, %h, %turned, %norm, %w, %h : tensor<f32>, tensor<2x4xf32>, tensor<4x2xf32>, tensor<f32>, tensor<4x4xf32>, tensor<2x4xf32>
}
