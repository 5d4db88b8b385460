// RUN: ps-opt %s -split-input-file -verify-diagnostics | ps-opt -split-input-file | FileCheck %s

// CHECK-LABEL: func @embedding
func.func @embedding(%w: tensor<16x8xf32>, %i: tensor<2x4xi64>, %d: tensor<2x4x8xf32>) {
  // CHECK: ps.embedding %{{.*}}, %{{.*}} : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
  %y = ps.embedding %w, %i : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
  // CHECK: ps.embedding_grad %{{.*}}, %{{.*}} padding 0 : tensor<2x4x8xf32>, tensor<2x4xi64> -> tensor<16x8xf32>
  %g = ps.embedding_grad %d, %i padding 0 : tensor<2x4x8xf32>, tensor<2x4xi64> -> tensor<16x8xf32>
  return
}

// -----

func.func @embedding_c1(%w: tensor<16x8xf32>, %i: tensor<2x4xi64>) {
  // expected-error @below {{result has type 'tensor<2x8xf32>', expected shape [2, 4, 8] (embedding_c1)}}
  %y = ps.embedding %w, %i : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x8xf32>
  return
}

// -----

func.func @embedding_c1_table(%w: tensor<16xf32>, %i: tensor<2xi64>) {
  // expected-error @below {{table has 1 dim, expected 2 (embedding_c1)}}
  %y = ps.embedding %w, %i : tensor<16xf32>, tensor<2xi64> -> tensor<2xf32>
  return
}
