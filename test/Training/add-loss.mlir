// RUN: split-file %s %t
// RUN: ps-opt %t/logits.mlir -ps-add-loss="kind=cross_entropy" | FileCheck %s --check-prefix=CE
// RUN: ps-opt %t/logits.mlir -ps-add-loss="kind=causal_lm" -ps-recognize-labels | FileCheck %s --check-prefix=LM
// RUN: ps-opt %t/logits.mlir -ps-add-loss="kind=mse output=hidden" | FileCheck %s --check-prefix=MSE
// RUN: not ps-opt %t/logits.mlir -ps-add-loss="kind=hinge" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not ps-opt %t/logits.mlir -ps-add-loss="kind=mse output=probabilities" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not ps-opt %t/flat.mlir -ps-add-loss="kind=causal_lm" 2>&1 | FileCheck %s --check-prefix=FLAT
// RUN: not ps-opt %t/labelled.mlir -ps-add-loss="kind=cross_entropy" 2>&1 | FileCheck %s --check-prefix=LABELLED
// RUN: ps-opt %t/logits.mlir -ps-add-loss="kind=cross_entropy" 2>&1 | FileCheck %s --check-prefix=CERTAIN
// RUN: ps-opt %t/image.mlir -ps-add-loss="kind=cross_entropy" 2>&1 | FileCheck %s --check-prefix=IMAGE

// CERTAIN-NOT: warning
// IMAGE: warning: --loss cross_entropy takes the last dim of the output 'tensor<4x3x3x3xf32>' for the classes, but torch.nn.functional.cross_entropy takes dim 1
// KIND: error: loss is 'hinge', expected cross_entropy, causal_lm or mse
// NAME: error: --loss-output probabilities: no such output; outputs are 0 "logits" : tensor<2x4x8xf32>, 1 "hidden" : tensor<2x4xf32>
// FLAT: error: --loss causal_lm needs a floating-point output [batch, length, classes]; name it with --loss-output; outputs are 0 "logits" : tensor<4x8xf32>
// LABELLED: error: --loss cross_entropy adds a loss that reads a new input "labels", but the model already has an input of this name; remove --loss if the model computes its loss itself, else rename the input

// The loss is the mean over the labels that are not ignored, returned as the last output.
// CE: func.func @forward(%[[IDS:.*]]: tensor<2x4xi64> {ps.name = "ids"}, %{{.*}}, %[[LABELS:.*]]: tensor<2x4xi64> {ps.name = "labels"})
// CE-SAME: tensor<f32> {ps.name = "loss"})
// CE: %[[ROWS:.*]], %{{.*}} = ps.cross_entropy %{{.*}}, %[[LABELS]] ignore -100
// CE: %[[COUNTED:.*]] = ps.compare ne %[[LABELS]], %{{.*}} : tensor<2x4xi64>
// CE: %[[SUM:.*]] = ps.reduce sum %[[ROWS]]
// CE: %[[NUMBER:.*]] = ps.convert %[[COUNTED]]
// CE: %[[COUNT:.*]] = ps.reduce sum %[[NUMBER]]
// CE: %[[LOSS:.*]] = ps.div %[[SUM]], %[[COUNT]]
// CE: return %{{.*}}, %{{.*}}, %[[LOSS]]

// The model compares with the next token, so the data loader provides unshifted tokens.
// LM: ps.labels = "same"
// LM: %[[NEXT:.*]] = ps.slice %[[LABELS:.*]] [0, 1] to [2, 4]
// LM: %[[LAST:.*]] = ps.constant dense<-100> : tensor<2x1xi64>
// LM: %[[SHIFTED:.*]] = ps.concat %[[NEXT]], %[[LAST]] dim 1
// LM: ps.cross_entropy %{{.*}}, %[[SHIFTED]] ignore -100

// MSE: func.func @forward({{.*}}, %[[LABELS:.*]]: tensor<2x4xf32> {ps.name = "labels"})
// MSE: %[[D:.*]] = ps.sub %{{.*}}, %[[LABELS]]
// MSE: %[[S:.*]] = ps.mul %[[D]], %[[D]]
// MSE: ps.reduce sum %[[S]]
// MSE: ps.constant dense<8.000000e+00>
// MSE: ps.div

//--- logits.mlir
func.func @forward(%ids: tensor<2x4xi64> {ps.name = "ids"}, %w: tensor<8x8xf32>) -> (tensor<2x4x8xf32> {ps.name = "logits"}, tensor<2x4xf32> {ps.name = "hidden"}) {
  %x = ps.embedding %w, %ids : tensor<8x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
  %h = ps.reduce sum %x dims [2] : tensor<2x4x8xf32> -> tensor<2x4xf32>
  return %x, %h : tensor<2x4x8xf32>, tensor<2x4xf32>
}

//--- image.mlir
func.func @forward(%x: tensor<4x3x3x3xf32>) -> (tensor<4x3x3x3xf32> {ps.name = "logits"}) {
  return %x : tensor<4x3x3x3xf32>
}

//--- flat.mlir
func.func @forward(%x: tensor<4x8xf32>) -> (tensor<4x8xf32> {ps.name = "logits"}) {
  return %x : tensor<4x8xf32>
}

//--- labelled.mlir
func.func @forward(%x: tensor<4x8xf32>, %labels: tensor<4xi64> {ps.name = "labels"}) -> (tensor<4x8xf32> {ps.name = "logits"}) {
  return %x : tensor<4x8xf32>
}
