// Matmuls of dequantized tensors read the 8-bit values directly if the device has such a matmul.
// RUN: ps-opt -ps-fuse="float8=true biases=true" %s | FileCheck %s
// RUN: ps-opt -ps-fuse %s | FileCheck %s --check-prefix=WITHOUT

ps.mesh @mesh <"tp" = 2 : tensor>

// WITHOUT-LABEL: func.func @forward
// WITHOUT-NOT: scales

// The bias is added to the scaled sums before rounding.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<2x16x32xf8E4M3FN>, %[[W:.*]]: tensor<48x32xf8E4M3FN>, %[[UX:.*]]: tensor<f32>, %[[UW:.*]]: tensor<f32>, %[[B:.*]]: tensor<48xbf16>
// CHECK-NEXT: %[[Y:.*]] = ps.contract %[[X]] [0, 1, 2], %[[W]] [3, 2] -> [0, 1, 3] bias %[[B]] scales %[[UX]], %[[UW]]
// CHECK-NEXT: return %[[Y]]
func.func @forward(%x: tensor<2x16x32xf8E4M3FN>, %w: tensor<48x32xf8E4M3FN>, %ux: tensor<f32>, %uw: tensor<f32>, %b: tensor<48xbf16>)
    -> tensor<2x16x48xbf16> attributes {ps.class = "c"} {
  %sx = ps.broadcast %ux dims [] : tensor<f32> -> tensor<2x16x32xf32>
  %dx = ps.dequantize %x, %sx : tensor<2x16x32xf8E4M3FN>, tensor<2x16x32xf32> -> tensor<2x16x32xbf16>
  %sw = ps.broadcast %uw dims [] : tensor<f32> -> tensor<48x32xf32>
  %dw = ps.dequantize %w, %sw : tensor<48x32xf8E4M3FN>, tensor<48x32xf32> -> tensor<48x32xbf16>
  %y = ps.contract %dx [0, 1, 2], %dw [3, 2] -> [0, 1, 3] : (tensor<2x16x32xbf16>, tensor<48x32xbf16>) -> tensor<2x16x48xbf16>
  %sb = ps.broadcast %b dims [2] : tensor<48xbf16> -> tensor<2x16x48xbf16>
  %z = ps.add %y, %sb : tensor<2x16x48xbf16>
  return %z : tensor<2x16x48xbf16>
}

// Weight gradient in f32 from two 8-bit formats. Dims in an order that no matmul supports are
// transposed as 8-bit values.
// CHECK-LABEL: func.func @weight_gradient
// CHECK: ps.transpose {{.*}}f8E5M2
// CHECK: ps.contract {{.*}} scales %arg2, %arg3 {{.*}}xf8E5M2>, tensor<{{.*}}xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<48x32xf32>
func.func @weight_gradient(%g: tensor<16x48x2xf8E5M2>, %x: tensor<2x16x32xf8E4M3FN>, %ug: tensor<f32>, %ux: tensor<f32>)
    -> tensor<48x32xf32> attributes {ps.class = "c"} {
  %sg = ps.broadcast %ug dims [] : tensor<f32> -> tensor<16x48x2xf32>
  %dg = ps.dequantize %g, %sg : tensor<16x48x2xf8E5M2>, tensor<16x48x2xf32> -> tensor<16x48x2xbf16>
  %sx = ps.broadcast %ux dims [] : tensor<f32> -> tensor<2x16x32xf32>
  %dx = ps.dequantize %x, %sx : tensor<2x16x32xf8E4M3FN>, tensor<2x16x32xf32> -> tensor<2x16x32xbf16>
  %v = ps.contract %dg [0, 1, 2], %dx [2, 0, 3] -> [1, 3] : (tensor<16x48x2xbf16>, tensor<2x16x32xbf16>) -> tensor<48x32xf32>
  return %v : tensor<48x32xf32>
}

// Twins: a dim that is not a multiple of 16, two e5m2 operands, and a 16-bit operand.
// CHECK-LABEL: func.func @odd
// CHECK-NOT: scales
// CHECK-LABEL: func.func @two_gradients
// CHECK-NOT: scales
// CHECK-LABEL: func.func @one_is_wide
// CHECK-NOT: scales
func.func @odd(%x: tensor<16x24xf8E4M3FN>, %w: tensor<48x24xf8E4M3FN>, %u: tensor<f32>) -> tensor<16x48xbf16> attributes {ps.class = "c"} {
  %sx = ps.broadcast %u dims [] : tensor<f32> -> tensor<16x24xf32>
  %dx = ps.dequantize %x, %sx : tensor<16x24xf8E4M3FN>, tensor<16x24xf32> -> tensor<16x24xbf16>
  %sw = ps.broadcast %u dims [] : tensor<f32> -> tensor<48x24xf32>
  %dw = ps.dequantize %w, %sw : tensor<48x24xf8E4M3FN>, tensor<48x24xf32> -> tensor<48x24xbf16>
  %y = ps.contract %dx [0, 1], %dw [2, 1] -> [0, 2] : (tensor<16x24xbf16>, tensor<48x24xbf16>) -> tensor<16x48xbf16>
  return %y : tensor<16x48xbf16>
}
func.func @two_gradients(%x: tensor<16x32xf8E5M2>, %w: tensor<48x32xf8E5M2>, %u: tensor<f32>) -> tensor<16x48xbf16> attributes {ps.class = "c"} {
  %sx = ps.broadcast %u dims [] : tensor<f32> -> tensor<16x32xf32>
  %dx = ps.dequantize %x, %sx : tensor<16x32xf8E5M2>, tensor<16x32xf32> -> tensor<16x32xbf16>
  %sw = ps.broadcast %u dims [] : tensor<f32> -> tensor<48x32xf32>
  %dw = ps.dequantize %w, %sw : tensor<48x32xf8E5M2>, tensor<48x32xf32> -> tensor<48x32xbf16>
  %y = ps.contract %dx [0, 1], %dw [2, 1] -> [0, 2] : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  return %y : tensor<16x48xbf16>
}
func.func @one_is_wide(%x: tensor<16x32xbf16>, %w: tensor<48x32xf8E4M3FN>, %u: tensor<f32>) -> tensor<16x48xbf16> attributes {ps.class = "c"} {
  %sw = ps.broadcast %u dims [] : tensor<f32> -> tensor<48x32xf32>
  %dw = ps.dequantize %w, %sw : tensor<48x32xf8E4M3FN>, tensor<48x32xf32> -> tensor<48x32xbf16>
  %y = ps.contract %x [0, 1], %dw [2, 1] -> [0, 2] : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  return %y : tensor<16x48xbf16>
}
