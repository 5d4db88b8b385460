// RUN: ps-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: func.func @neutral_elements
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
func.func @neutral_elements(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = ps.constant dense<0.0> : tensor<4xf32>
  %one = ps.constant dense<1.0> : tensor<4xf32>
  %a = ps.add %zero, %x : tensor<4xf32>
  %b = ps.sub %x, %zero : tensor<4xf32>
  %c = ps.mul %x, %one : tensor<4xf32>
  %d = ps.div %x, %one : tensor<4xf32>
  %n = ps.neg %x : tensor<4xf32>
  %e = ps.neg %n : tensor<4xf32>
  %f = ps.convert %x : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
  return %a, %b, %c, %d, %e, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// The twin: x * 0 is not 0 (x may be NaN), 0 - x is not x, x / 0 stays.
// CHECK-LABEL: func.func @not_neutral
func.func @not_neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = ps.constant dense<0.0> : tensor<4xf32>
  // CHECK: ps.mul
  %a = ps.mul %x, %zero : tensor<4xf32>
  // CHECK: ps.sub
  %b = ps.sub %zero, %x : tensor<4xf32>
  // CHECK: ps.div
  %c = ps.div %x, %zero : tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @movements_merge
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>, %[[Y:.*]]: tensor<4xf32>)
func.func @movements_merge(%x: tensor<2x3x4xf32>, %y: tensor<4xf32>) -> (tensor<24xf32>, tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<2x3x4xf32>, tensor<2x3x1xf32>) {
  // CHECK-DAG: %[[A:.*]] = ps.reshape %[[X]] : tensor<2x3x4xf32> -> tensor<24xf32>
  %0 = ps.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %a = ps.reshape %0 : tensor<6x4xf32> -> tensor<24xf32>
  %b = ps.reshape %a : tensor<24xf32> -> tensor<2x3x4xf32>
  // CHECK-DAG: %[[C:.*]] = ps.transpose %[[X]] [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %1 = ps.transpose %x [1, 0, 2] : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %c = ps.transpose %1 [2, 1, 0] : tensor<3x2x4xf32> -> tensor<4x2x3xf32>
  // CHECK-DAG: %[[D:.*]] = ps.broadcast %[[Y]] dims [2] : tensor<4xf32> -> tensor<2x3x4xf32>
  %2 = ps.broadcast %y dims [1] : tensor<4xf32> -> tensor<3x4xf32>
  %d = ps.broadcast %2 dims [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  // CHECK-DAG: %[[E:.*]] = ps.slice %[[X]] [0, 0, 2] to [2, 3, 3] by [1, 1, 1] : tensor<2x3x4xf32> -> tensor<2x3x1xf32>
  %3 = ps.slice %x [0, 0, 1] to [2, 3, 4] by [1, 1, 1] : tensor<2x3x4xf32> -> tensor<2x3x3xf32>
  %e = ps.slice %3 [0, 0, 1] to [2, 3, 2] by [1, 1, 1] : tensor<2x3x3xf32> -> tensor<2x3x1xf32>
  // CHECK: return %[[A]], %[[X]], %[[C]], %[[D]], %[[E]]
  return %a, %b, %c, %d, %e : tensor<24xf32>, tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<2x3x4xf32>, tensor<2x3x1xf32>
}

// CHECK-LABEL: func.func @identity_movements
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
func.func @identity_movements(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %a = ps.reshape %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %b = ps.transpose %x [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %c = ps.broadcast %x dims [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %d = ps.slice %x [0, 0] to [2, 3] by [1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %e = ps.concat %x dim 0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
  return %a, %b, %c, %d, %e : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// Twin: a transpose of a square matrix keeps its type but is not an identity.
// CHECK-LABEL: func.func @square_transpose
func.func @square_transpose(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  // CHECK: ps.transpose
  %a = ps.transpose %x [1, 0] : tensor<3x3xf32> -> tensor<3x3xf32>
  return %a : tensor<3x3xf32>
}

// CHECK-LABEL: func.func @powers
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
func.func @powers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %two = ps.constant dense<2.0> : tensor<4xf32>
  %half = ps.constant dense<0.5> : tensor<4xf32>
  %minus = ps.constant dense<-0.5> : tensor<4xf32>
  // CHECK-DAG: %[[A:.*]] = ps.mul %[[X]], %[[X]]
  %a = ps.pow %x, %two : tensor<4xf32>
  // CHECK-DAG: %[[B:.*]] = ps.sqrt %[[X]]
  %b = ps.pow %x, %half : tensor<4xf32>
  // CHECK-DAG: %[[C:.*]] = ps.rsqrt %[[X]]
  %c = ps.pow %x, %minus : tensor<4xf32>
  // CHECK: return %[[A]], %[[B]], %[[C]]
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Twin: a power that no cheaper op computes.
// CHECK-LABEL: func.func @power_without_cheaper_form
func.func @power_without_cheaper_form(%x: tensor<4xf32>) -> tensor<4xf32> {
  %p = ps.constant dense<1.7> : tensor<4xf32>
  // CHECK: ps.pow
  %a = ps.pow %x, %p : tensor<4xf32>
  return %a : tensor<4xf32>
}

// A splat folds at any size, other constants only if they are small.
// CHECK-LABEL: func.func @constants
func.func @constants() -> (tensor<1024x1024xf32>, tensor<3xf32>, tensor<f32>, tensor<2xi1>, tensor<3xf32>) {
  %a = ps.constant dense<2.0> : tensor<1024x1024xf32>
  // CHECK-DAG: %[[B:.*]] = ps.constant dense<4.000000e+00> : tensor<1024x1024xf32>
  %b = ps.mul %a, %a : tensor<1024x1024xf32>
  %c = ps.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  // CHECK-DAG: %[[D:.*]] = ps.constant dense<[2.000000e+00, 4.000000e+00, 6.000000e+00]> : tensor<3xf32>
  %d = ps.add %c, %c : tensor<3xf32>
  // CHECK-DAG: %[[E:.*]] = ps.constant dense<6.000000e+00> : tensor<f32>
  %e = ps.reduce sum %c dims [0] : tensor<3xf32> -> tensor<f32>
  %f = ps.constant dense<[1, 5]> : tensor<2xi64>
  %g = ps.constant dense<3> : tensor<2xi64>
  // CHECK-DAG: %[[H:.*]] = ps.constant dense<[true, false]> : tensor<2xi1>
  %h = ps.compare lt %f, %g : tensor<2xi64> -> tensor<2xi1>
  %t = ps.constant dense<true> : tensor<3xi1>
  %k = ps.select %t, %d, %c : tensor<3xi1>, tensor<3xf32>
  // CHECK: return %[[B]], %[[D]], %[[E]], %[[H]], %[[D]]
  return %b, %d, %e, %h, %k : tensor<1024x1024xf32>, tensor<3xf32>, tensor<f32>, tensor<2xi1>, tensor<3xf32>
}

// Folding does not expand splats: 2^40 elements would take 8 TiB.
// CHECK-LABEL: func.func @splats_of_any_size
func.func @splats_of_any_size() -> (tensor<1048576xf32>, tensor<1048576xf32>, tensor<i32>, tensor<1024x1048576x1024xi8>, tensor<2048x1048576x1024xi8>, tensor<4xbf16>) {
  %a = ps.constant dense<0.5> : tensor<1048576x1048576xf32>
  // CHECK-DAG: %[[SUM:.*]] = ps.constant dense<5.242880e+05> : tensor<1048576xf32>
  %sum = ps.reduce sum %a dims [0] : tensor<1048576x1048576xf32> -> tensor<1048576xf32>
  // CHECK-DAG: %[[MAX:.*]] = ps.constant dense<5.000000e-01> : tensor<1048576xf32>
  %max = ps.reduce max %a dims [1] : tensor<1048576x1048576xf32> -> tensor<1048576xf32>
  // The sum 3 * 2^40 + 3 * 2^20 wraps to 32 bits, as in the evaluator.
  %c = ps.constant dense<3> : tensor<1048577x1048576xi32>
  // CHECK-DAG: %[[WRAPS:.*]] = ps.constant dense<3145728> : tensor<i32>
  %wraps = ps.reduce sum %c dims [0, 1] : tensor<1048577x1048576xi32> -> tensor<i32>
  %d = ps.constant dense<7> : tensor<1024x1024x1048576xi8>
  // CHECK-DAG: %[[TURNED:.*]] = ps.constant dense<7> : tensor<1024x1048576x1024xi8>
  %turned = ps.transpose %d [0, 2, 1] : tensor<1024x1024x1048576xi8> -> tensor<1024x1048576x1024xi8>
  // CHECK-DAG: %[[BOTH:.*]] = ps.constant dense<7> : tensor<2048x1048576x1024xi8>
  %both = ps.concat %turned, %turned dim 0 : (tensor<1024x1048576x1024xi8>, tensor<1024x1048576x1024xi8>) -> tensor<2048x1048576x1024xi8>
  %e = ps.constant dense<0.125> : tensor<1099511627776xbf16>
  // CHECK-DAG: %[[PART:.*]] = ps.constant dense<1.250000e-01> : tensor<4xbf16>
  %part = ps.slice %e [0] to [4] by [1] : tensor<1099511627776xbf16> -> tensor<4xbf16>
  // CHECK: return %[[SUM]], %[[MAX]], %[[WRAPS]], %[[TURNED]], %[[BOTH]], %[[PART]]
  return %sum, %max, %wraps, %turned, %both, %part : tensor<1048576xf32>, tensor<1048576xf32>, tensor<i32>, tensor<1024x1048576x1024xi8>, tensor<2048x1048576x1024xi8>, tensor<4xbf16>
}

// Twin: different splats do not fold if the result exceeds the size limit.
// CHECK-LABEL: func.func @unequal_splats
func.func @unequal_splats() -> tensor<2048x1073741824xf32> {
  %a = ps.constant dense<1.0> : tensor<1024x1073741824xf32>
  %b = ps.constant dense<2.0> : tensor<1024x1073741824xf32>
  // CHECK: ps.concat
  %c = ps.concat %a, %b dim 0 : (tensor<1024x1073741824xf32>, tensor<1024x1073741824xf32>) -> tensor<2048x1073741824xf32>
  return %c : tensor<2048x1073741824xf32>
}

// Sums over equal booleans, infinities and -0 fold to the value that the evaluator computes.
// CHECK-LABEL: func.func @sums_of_equal_elements
func.func @sums_of_equal_elements() -> (tensor<i1>, tensor<f32>, tensor<f32>) {
  %true = ps.constant dense<true> : tensor<2xi1>
  // CHECK-DAG: %[[ANY:.*]] = ps.constant dense<true> : tensor<i1>
  %any = ps.reduce sum %true dims [0] : tensor<2xi1> -> tensor<i1>
  %inf = ps.constant dense<0x7F800000> : tensor<2xf32>
  // CHECK-DAG: %[[INF:.*]] = ps.constant dense<0x7F800000> : tensor<f32>
  %all = ps.reduce sum %inf dims [0] : tensor<2xf32> -> tensor<f32>
  %minus = ps.constant dense<-0.0> : tensor<2xf32>
  // CHECK-DAG: %[[ZERO:.*]] = ps.constant dense<0.000000e+00> : tensor<f32>
  %zero = ps.reduce sum %minus dims [0] : tensor<2xf32> -> tensor<f32>
  // CHECK: return %[[ANY]], %[[INF]], %[[ZERO]]
  return %any, %all, %zero : tensor<i1>, tensor<f32>, tensor<f32>
}

// Twin: one operand is not constant.
// CHECK-LABEL: func.func @not_constant
func.func @not_constant(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = ps.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  // CHECK: ps.add
  %d = ps.add %c, %x : tensor<3xf32>
  return %d : tensor<3xf32>
}

// Twin: movements of computed values stay.
// CHECK-LABEL: func.func @movements_of_computed_values
func.func @movements_of_computed_values(%x: tensor<2x6xf32>, %y: tensor<6xf32>) -> (tensor<12xf32>, tensor<6x2xf32>, tensor<2x6xf32>, tensor<2x3xf32>, tensor<2x12xf32>) {
  %e = ps.exp %x : tensor<2x6xf32>
  // CHECK-DAG: ps.reshape
  %a = ps.reshape %e : tensor<2x6xf32> -> tensor<12xf32>
  // CHECK-DAG: ps.transpose
  %b = ps.transpose %e [1, 0] : tensor<2x6xf32> -> tensor<6x2xf32>
  %l = ps.exp %y : tensor<6xf32>
  // CHECK-DAG: ps.broadcast
  %c = ps.broadcast %l dims [1] : tensor<6xf32> -> tensor<2x6xf32>
  // CHECK-DAG: ps.slice
  %d = ps.slice %e [0, 1] to [2, 4] by [1, 1] : tensor<2x6xf32> -> tensor<2x3xf32>
  // CHECK-DAG: ps.concat
  %f = ps.concat %e, %e dim 1 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x12xf32>
  return %a, %b, %c, %d, %f : tensor<12xf32>, tensor<6x2xf32>, tensor<2x6xf32>, tensor<2x3xf32>, tensor<2x12xf32>
}

// CHECK-LABEL: func.func @bits
// CHECK-SAME: (%[[X:.*]]: tensor<4xi1>, %[[Y:.*]]: tensor<4xi1>, %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>)
func.func @bits(%x: tensor<4xi1>, %y: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) {
  %true = ps.constant dense<true> : tensor<4xi1>
  %false = ps.constant dense<false> : tensor<4xi1>
  %0 = ps.and %x, %true : tensor<4xi1>
  %1 = ps.or %x, %false : tensor<4xi1>
  %n = ps.not %x : tensor<4xi1>
  %2 = ps.not %n : tensor<4xi1>
  %3 = ps.select %true, %a, %b : tensor<4xi1>, tensor<4xf32>
  %4 = ps.dropout %a p 0.5 {training = false, ps.key = 1 : i64} : tensor<4xf32>
  // CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[A]], %[[A]]
  return %0, %1, %2, %3, %4 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
}

// Twin: unknown bits, dropout in training mode, and a conversion that rounds.
// CHECK-LABEL: func.func @unknown_bits
func.func @unknown_bits(%x: tensor<4xi1>, %y: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-DAG: ps.and
  %0 = ps.and %x, %y : tensor<4xi1>
  // CHECK-DAG: ps.or
  %1 = ps.or %x, %y : tensor<4xi1>
  // CHECK-DAG: ps.not
  %2 = ps.not %x : tensor<4xi1>
  // CHECK-DAG: ps.select
  %3 = ps.select %x, %a, %b : tensor<4xi1>, tensor<4xf32>
  // CHECK-DAG: ps.dropout
  %4 = ps.dropout %a p 0.5 {ps.key = 1 : i64} : tensor<4xf32>
  // CHECK-DAG: ps.convert %{{.*}} : tensor<4xf32> -> tensor<4xf16>
  // CHECK-DAG: ps.convert %{{.*}} : tensor<4xf16> -> tensor<4xf32>
  %h = ps.convert %a : tensor<4xf32> -> tensor<4xf16>
  %5 = ps.convert %h : tensor<4xf16> -> tensor<4xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @mode
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>)
func.func @mode(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = ps.by_mode %a, %b {training = false} : tensor<4xf32>
  %1 = ps.by_mode %a, %b {ps.phase = #ps.phase<forward>} : tensor<4xf32>
  // CHECK-NEXT: return %[[B]], %[[A]]
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// After autodiff, ps.stop_gradient folds to its operand.
// CHECK-LABEL: func.func @stopped_gradient
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32>)
func.func @stopped_gradient(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = ps.stop_gradient %a {ps.phase = #ps.phase<forward>} : tensor<4xf32>
  // CHECK-NEXT: return %[[A]]
  return %0 : tensor<4xf32>
}

// Twin: before autodiff, ps.stop_gradient stays.
// CHECK-LABEL: func.func @gradient_to_be_stopped
func.func @gradient_to_be_stopped(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: ps.stop_gradient
  %0 = ps.stop_gradient %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Twin: before autodiff, the mode is unknown.
// CHECK-LABEL: func.func @unknown_mode
func.func @unknown_mode(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: ps.by_mode
  %0 = ps.by_mode %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Integers: x / 0 is 0, and the least integer divided by -1 wraps around; folding does not trap.
// CHECK-LABEL: @integer_division_by_zero_and_minus_one
func.func @integer_division_by_zero_and_minus_one() -> (tensor<i64>, tensor<3xi8>) {
  %least = ps.constant dense<-9223372036854775808> : tensor<i64>
  %minus = ps.constant dense<-1> : tensor<i64>
  // CHECK-DAG: ps.constant dense<-9223372036854775808> : tensor<i64>
  %0 = ps.div %least, %minus : tensor<i64>
  %x = ps.constant dense<[-128, 7, -7]> : tensor<3xi8>
  %y = ps.constant dense<[-1, 0, 2]> : tensor<3xi8>
  // CHECK-DAG: ps.constant dense<[-128, 0, -3]> : tensor<3xi8>
  %1 = ps.div %x, %y : tensor<3xi8>
  return %0, %1 : tensor<i64>, tensor<3xi8>
}
