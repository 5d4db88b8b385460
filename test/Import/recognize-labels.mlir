// RUN: ps-opt -split-input-file -ps-recognize-labels %s | FileCheck %s

// Each label is compared with the logits of its own position, so the data loader shifts the labels.
// CHECK: module attributes {ps.labels = "next"}
// CHECK: func.func @forward(%{{.*}}: tensor<2x4xi64> {ps.limit = 16 : i64, ps.name = "ids"},
// CHECK-SAME: %{{.*}}: tensor<2x4xi64> {ps.ignore = -100 : i64, ps.limit = 16 : i64, ps.name = "labels", ps.role = "labels"}
module {
  func.func @forward(%ids: tensor<2x4xi64> {ps.name = "ids"}, %labels: tensor<2x4xi64> {ps.name = "labels"}, %w: tensor<16x8xf32>) -> tensor<2x4xf32> {
    %x = ps.embedding %w, %ids : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
    %logits = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<16x8xf32>) -> tensor<2x4x16xf32>
    %l, %lse = ps.cross_entropy %logits, %labels ignore -100 : tensor<2x4x16xf32>, tensor<2x4xi64> -> tensor<2x4xf32>
    return %l : tensor<2x4xf32>
  }
}

// -----

// Hugging Face form: the model pads the labels at the end and drops the first one.
// CHECK: module attributes {ps.labels = "same"}
module {
  func.func @forward(%ids: tensor<2x4xi64>, %labels: tensor<2x4xi64>, %w: tensor<16x8xf32>) -> tensor<2x4xf32> {
    %x = ps.embedding %w, %ids : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
    %logits = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<16x8xf32>) -> tensor<2x4x16xf32>
    %none = ps.constant dense<-100> : tensor<2x1xi64>
    %padded = ps.concat %labels, %none dim 1 : (tensor<2x4xi64>, tensor<2x1xi64>) -> tensor<2x5xi64>
    %shifted = ps.slice %padded [0, 1] to [2, 5] by [1, 1] : tensor<2x5xi64> -> tensor<2x4xi64>
    %l, %lse = ps.cross_entropy %logits, %shifted ignore -100 : tensor<2x4x16xf32>, tensor<2x4xi64> -> tensor<2x4xf32>
    return %l : tensor<2x4xf32>
  }
}

// -----

// The model drops the last logits and the first label, then merges samples and positions.
// CHECK: module attributes {ps.labels = "same"}
module {
  func.func @forward(%ids: tensor<2x4xi64>, %labels: tensor<2x4xi64>, %w: tensor<16x8xf32>) -> tensor<6xf32> {
    %x = ps.embedding %w, %ids : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
    %logits = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<16x8xf32>) -> tensor<2x4x16xf32>
    %some = ps.slice %logits [0, 0, 0] to [2, 3, 16] by [1, 1, 1] : tensor<2x4x16xf32> -> tensor<2x3x16xf32>
    %shifted = ps.slice %labels [0, 1] to [2, 4] by [1, 1] : tensor<2x4xi64> -> tensor<2x3xi64>
    %a = ps.reshape %some : tensor<2x3x16xf32> -> tensor<6x16xf32>
    %b = ps.reshape %shifted : tensor<2x3xi64> -> tensor<6xi64>
    %l, %lse = ps.cross_entropy %a, %b ignore -100 : tensor<6x16xf32>, tensor<6xi64> -> tensor<6xf32>
    return %l : tensor<6xf32>
  }
}

// -----

// Logits and labels have the same slice: a loss on some positions, without a shift in the model.
// CHECK: module attributes {ps.labels = "next"}
module {
  func.func @forward(%ids: tensor<2x4xi64>, %labels: tensor<2x4xi64>, %w: tensor<16x8xf32>) -> tensor<2x3xf32> {
    %x = ps.embedding %w, %ids : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
    %some = ps.slice %x [0, 1, 0] to [2, 4, 8] by [1, 1, 1] : tensor<2x4x8xf32> -> tensor<2x3x8xf32>
    %logits = ps.contract %some [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x3x8xf32>, tensor<16x8xf32>) -> tensor<2x3x16xf32>
    %cut = ps.slice %labels [0, 1] to [2, 4] by [1, 1] : tensor<2x4xi64> -> tensor<2x3xi64>
    %l, %lse = ps.cross_entropy %logits, %cut ignore -100 : tensor<2x3x16xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
    return %l : tensor<2x3xf32>
  }
}

// -----

// Twins without ps.labels: labels of a classifier, and a shift by two.
// CHECK-NOT: ps.labels =
// CHECK: func.func @forward(%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4xi64> {ps.ignore = -100 : i64, ps.limit = 8 : i64, ps.role = "labels"})
module {
  func.func @forward(%x: tensor<4x8xf32>, %labels: tensor<4xi64>) -> tensor<4xf32> {
    %l, %lse = ps.cross_entropy %x, %labels ignore -100 : tensor<4x8xf32>, tensor<4xi64> -> tensor<4xf32>
    return %l : tensor<4xf32>
  }
}

// -----

// CHECK-NOT: ps.labels =
// CHECK: func.func @by_two
module {
  func.func @by_two(%ids: tensor<2x4xi64>, %labels: tensor<2x6xi64>, %w: tensor<16x8xf32>) -> tensor<2x4xf32> {
    %x = ps.embedding %w, %ids : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
    %logits = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<16x8xf32>) -> tensor<2x4x16xf32>
    %shifted = ps.slice %labels [0, 2] to [2, 6] by [1, 1] : tensor<2x6xi64> -> tensor<2x4xi64>
    %l, %lse = ps.cross_entropy %logits, %shifted ignore -100 : tensor<2x4x16xf32>, tensor<2x4xi64> -> tensor<2x4xf32>
    return %l : tensor<2x4xf32>
  }
}

// -----

// One input is both tokens and labels. Its values index the embedding table, so no value may be
// ignored, and the data loader does not treat the input as labels.
// CHECK-NOT: ps.labels =
// CHECK: func.func @from_itself(%{{.*}}: tensor<2x4xi64> {ps.limit = 16 : i64},
module {
  func.func @from_itself(%ids: tensor<2x4xi64>, %w: tensor<16x8xf32>) -> tensor<2x4xf32> {
    %x = ps.embedding %w, %ids : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
    %logits = ps.contract %x [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<16x8xf32>) -> tensor<2x4x16xf32>
    %l, %lse = ps.cross_entropy %logits, %ids ignore -100 : tensor<2x4x16xf32>, tensor<2x4xi64> -> tensor<2x4xf32>
    return %l : tensor<2x4xf32>
  }
}
