// RUN: ps-opt %s -split-input-file -verify-diagnostics | ps-opt -split-input-file | FileCheck %s

// CHECK-LABEL: func @grouped
func.func @grouped(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>, %v: tensor<2x2x8x16xf32>, %m: tensor<1x1x8x8xi1>, %p: tensor<2x8xi1>) {
  // CHECK: ps.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} padding %{{.*}} causal window 4 scale 2.500000e-01 {dropout = 1.000000e-01 : f64
  %o, %l = ps.attention %q, %k, %v mask %m padding %p causal window 4 scale 0.25 {dropout = 0.1 : f64, ps.key = 3 : i64} : (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<1x1x8x8xi1>, tensor<2x8xi1>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

// CHECK-LABEL: func @transposed
func.func @transposed(%q: tensor<2x4x8x16xf32>) {
  // CHECK: ps.attention %{{.*}}, %{{.*}}, %{{.*}} scale 2.500000e-01 transposed : {{.*}} -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  %o, %l = ps.attention %q, %q, %q scale 0.25 transposed : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @transposed_c1(%q: tensor<2x4x8x16xf32>) {
  // expected-error @below {{result has type 'tensor<2x4x8x16xf32>', expected shape [2, 8, 4, 16] (attention_c1)}}
  %o, %l = ps.attention %q, %q, %q scale 0.25 transposed : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c1(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x8xf32>) {
  // expected-error @below {{batch and feature sizes must agree (attention_c1)}}
  %o, %l = ps.attention %q, %k, %k scale 0.25 : (tensor<2x4x8x16xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c2(%q: tensor<2x4x8x16xf32>, %k: tensor<2x3x8x16xf32>) {
  // expected-error @below {{query has 4 heads, not a multiple of the 3 heads of the key (attention_c2)}}
  %o, %l = ps.attention %q, %k, %k scale 0.25 : (tensor<2x4x8x16xf32>, tensor<2x3x8x16xf32>, tensor<2x3x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c3_mask(%q: tensor<2x4x8x16xf32>, %m: tensor<2x3x8x8xi1>) {
  // expected-error @below {{mask has type 'tensor<2x3x8x8xi1>', expected shape [2, 4, 8, 8], where dims before the last may be 1 (attention_c3)}}
  %o, %l = ps.attention %q, %q, %q mask %m scale 0.25 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x3x8x8xi1>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c3_padding(%q: tensor<2x4x8x16xf32>, %p: tensor<2x9xi1>) {
  // expected-error @below {{padding has type 'tensor<2x9xi1>', expected shape [2, 8] (attention_c3)}}
  %o, %l = ps.attention %q, %q, %q padding %p scale 0.25 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x9xi1>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return
}
