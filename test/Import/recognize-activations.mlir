// RUN: ps-opt %s -ps-recognize-activations | FileCheck %s

// GPT-2 form: x/2 (1 + tanh(0.798 (x + 0.0447 x^3))). The cube x^3 has another use and stays.
// CHECK-LABEL: func.func @tanh_gelu
// CHECK: %[[CUBE:.*]] = ps.mul %0, %arg0
// CHECK-NEXT: %[[Y:.*]] = ps.gelu tanh %arg0 : tensor<4x8xf32>
// CHECK-NOT: ps.tanh
// CHECK: return %[[Y]], %[[CUBE]]
func.func @tanh_gelu(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %half = ps.constant dense<0.5> : tensor<4x8xf32>
  %one = ps.constant dense<1.0> : tensor<f32>
  %ones = ps.broadcast %one dims [] : tensor<f32> -> tensor<4x8xf32>
  %a = ps.constant dense<0.044715> : tensor<4x8xf32>
  %b = ps.constant dense<0.797884583> : tensor<4x8xf32>
  %0 = ps.mul %x, %half : tensor<4x8xf32>
  %1 = ps.mul %x, %x : tensor<4x8xf32>
  %2 = ps.mul %1, %x : tensor<4x8xf32>
  %3 = ps.mul %2, %a : tensor<4x8xf32>
  %4 = ps.add %x, %3 : tensor<4x8xf32>
  %5 = ps.mul %4, %b : tensor<4x8xf32>
  %6 = ps.tanh %5 : tensor<4x8xf32>
  %7 = ps.add %6, %ones : tensor<4x8xf32>
  %8 = ps.mul %0, %7 : tensor<4x8xf32>
  return %8, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Hugging Face gelu_fast form. The input is the result of a binary op, which stays.
// CHECK-LABEL: func.func @fast_gelu
// CHECK: %[[X:.*]] = ps.add %arg0, %arg1
// CHECK-NEXT: %[[Y:.*]] = ps.gelu tanh %[[X]]
// CHECK-NEXT: return %[[Y]]
func.func @fast_gelu(%u: tensor<8xbf16>, %v: tensor<8xbf16>) -> tensor<8xbf16> {
  %x = ps.add %u, %v : tensor<8xbf16>
  %wide = ps.convert %x : tensor<8xbf16> -> tensor<8xf32>
  %one = ps.constant dense<1.0> : tensor<8xf32>
  %half = ps.constant dense<0.5> : tensor<8xf32>
  %a = ps.constant dense<0.044715> : tensor<8xf32>
  %b = ps.constant dense<0.797884583> : tensor<8xf32>
  %0 = ps.mul %wide, %wide : tensor<8xf32>
  %1 = ps.mul %0, %a : tensor<8xf32>
  %2 = ps.add %1, %one : tensor<8xf32>
  %3 = ps.mul %wide, %b : tensor<8xf32>
  %4 = ps.mul %3, %2 : tensor<8xf32>
  %5 = ps.tanh %4 : tensor<8xf32>
  %6 = ps.add %one, %5 : tensor<8xf32>
  %7 = ps.mul %6, %half : tensor<8xf32>
  %8 = ps.convert %7 : tensor<8xf32> -> tensor<8xbf16>
  %9 = ps.mul %8, %x : tensor<8xbf16>
  return %9 : tensor<8xbf16>
}

// ONNX form: x (1 + erf(x / sqrt(2))) / 2.
// CHECK-LABEL: func.func @erf_gelu
// CHECK-NEXT: %[[Y:.*]] = ps.gelu erf %arg0
// CHECK-NEXT: return %[[Y]]
func.func @erf_gelu(%x: tensor<8xf32>) -> tensor<8xf32> {
  %root = ps.constant dense<1.41421354> : tensor<8xf32>
  %one = ps.constant dense<1.0> : tensor<8xf32>
  %half = ps.constant dense<0.5> : tensor<8xf32>
  %0 = ps.div %x, %root : tensor<8xf32>
  %1 = ps.erf %0 : tensor<8xf32>
  %2 = ps.add %1, %one : tensor<8xf32>
  %3 = ps.mul %x, %2 : tensor<8xf32>
  %4 = ps.mul %3, %half : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: func.func @silus
// CHECK-NEXT: %[[Y:.*]] = ps.silu %arg0
// CHECK-NEXT: %[[Z:.*]] = ps.silu %arg0
// CHECK-NEXT: return %[[Y]], %[[Z]]
func.func @silus(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = ps.sigmoid %x : tensor<8xf32>
  %1 = ps.mul %0, %x : tensor<8xf32>
  %one = ps.constant dense<1.0> : tensor<8xf32>
  %2 = ps.neg %x : tensor<8xf32>
  %3 = ps.exp %2 : tensor<8xf32>
  %4 = ps.add %3, %one : tensor<8xf32>
  %5 = ps.div %x, %4 : tensor<8xf32>
  return %1, %5 : tensor<8xf32>, tensor<8xf32>
}

// A sigmoid with a stopped gradient gives the values of SiLU but another derivative.
// CHECK-LABEL: func.func @stopped_gate
// CHECK-NOT: ps.silu
// CHECK: return
func.func @stopped_gate(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = ps.sigmoid %x : tensor<8xf32>
  %1 = ps.stop_gradient %0 : tensor<8xf32>
  %2 = ps.mul %x, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}

// Twins: x sigmoid(1.702 x), a clamped input, a gate computed from another value, and a sigmoid
// without its multiplication.
// CHECK-LABEL: func.func @similar_expressions_stay
// CHECK-NOT: ps.gelu
// CHECK-NOT: ps.silu
// CHECK: return
func.func @similar_expressions_stay(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %c = ps.constant dense<1.702> : tensor<8xf32>
  %0 = ps.mul %x, %c : tensor<8xf32>
  %1 = ps.sigmoid %0 : tensor<8xf32>
  %2 = ps.mul %x, %1 : tensor<8xf32>
  %most = ps.constant dense<65504.0> : tensor<8xf32>
  %one = ps.constant dense<1.0> : tensor<8xf32>
  %3 = ps.sigmoid %x : tensor<8xf32>
  %4 = ps.min %x, %most : tensor<8xf32>
  %5 = ps.mul %4, %3 : tensor<8xf32>
  %6 = ps.mul %y, %3 : tensor<8xf32>
  %7 = ps.mul %3, %one : tensor<8xf32>
  return %2, %5, %6, %7 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
