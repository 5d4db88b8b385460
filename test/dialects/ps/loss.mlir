// RUN: ps-opt %s -split-input-file -verify-diagnostics | ps-opt -split-input-file | FileCheck %s

// CHECK-LABEL: func @loss
func.func @loss(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %g: tensor<4xf32>) {
  // CHECK: ps.cross_entropy %{{.*}}, %{{.*}} ignore -100 : tensor<4x8xf32>, tensor<4xi64> -> tensor<4xf32>
  %l, %lse = ps.cross_entropy %x, %t ignore -100 : tensor<4x8xf32>, tensor<4xi64> -> tensor<4xf32>
  // CHECK: ps.cross_entropy %{{.*}}, %{{.*}} ignore -100 smoothing 1.000000e-01 :
  %m, %mse = ps.cross_entropy %x, %t ignore -100 smoothing 0.1 : tensor<4x8xf32>, tensor<4xi64> -> tensor<4xf32>
  // CHECK: ps.cross_entropy_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} ignore -100 : tensor<4x8xf32>, tensor<4xf32>, tensor<4xi64>
  %d = ps.cross_entropy_grad %x, %g, %t, %lse ignore -100 : tensor<4x8xf32>, tensor<4xf32>, tensor<4xi64>
  return
}

// -----

func.func @cross_entropy_c1(%x: tensor<4x8xf32>, %t: tensor<5xi64>) {
  // expected-error @below {{labels have type 'tensor<5xi64>', expected the shape of 'tensor<4x8xf32>' without the last dim (cross_entropy_c1)}}
  %l, %lse = ps.cross_entropy %x, %t ignore -100 : tensor<4x8xf32>, tensor<5xi64> -> tensor<5xf32>
  return
}

// -----

func.func @cross_entropy_c2(%x: tensor<4x8xf32>, %t: tensor<4xi1>) {
  // expected-error @below {{labels are bools, expected integers (cross_entropy_c2)}}
  %l, %lse = ps.cross_entropy %x, %t ignore -100 : tensor<4x8xf32>, tensor<4xi1> -> tensor<4xf32>
  return
}

// -----

func.func @cross_entropy_c3(%x: tensor<4x8xf32>, %t: tensor<4xi64>) {
  // expected-error @below {{ignored label is 9007199254740993, expected a number from -2^53 to 2^53 (cross_entropy_c3)}}
  %l, %lse = ps.cross_entropy %x, %t ignore 9007199254740993 : tensor<4x8xf32>, tensor<4xi64> -> tensor<4xf32>
  return
}
