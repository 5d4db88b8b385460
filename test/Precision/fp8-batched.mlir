// Each matmul of a batched matmul must have dims that are multiples of 16.
// RUN: ps-opt %s --ps-precision=precision=fp8 2>/dev/null | FileCheck %s
// RUN: ps-opt %s --ps-precision=precision=fp8 2>&1 >/dev/null | FileCheck %s --check-prefix=WARN

// WARN: warning: --precision fp8 needs dims that are multiples of 16; 1 linear layer has other dims and stays in bf16
// WARN: {{.*}}note: {{.*}}few: 4 x 32 by 32 x 16
module {
  ps.variable parameter @few : tensor<4x32x16xf32>
  ps.variable parameter @fit : tensor<3x32x16xf32>

  // Without training there is no amax history: each scale comes from the tensor itself.
  // CHECK-NOT: ps.variable {{.*}}fp8
  // CHECK-LABEL: func.func @evaluate
  // CHECK-NOT: ps.quantize
  // CHECK: ps.contract {{.*}} : (tensor<4x4x32xbf16>, tensor<4x32x16xbf16>)
  // CHECK: %[[LARGEST:.*]] = ps.reduce max
  // CHECK: %[[SCALE:.*]] = ps.float8_scale e4m3 %[[LARGEST]]
  // CHECK: %[[SPREAD:.*]] = ps.broadcast %[[SCALE]]
  // CHECK: %[[QX:.*]] = ps.quantize %{{.*}}, %[[SPREAD]]
  // CHECK: %[[X:.*]] = ps.dequantize %[[QX]],
  // CHECK: %[[QW:.*]] = ps.quantize
  // CHECK: %[[W:.*]] = ps.dequantize %[[QW]],
  // CHECK: ps.contract %[[X]] [0, 1, 2], %[[W]] [0, 2, 3] -> [0, 1, 3]
  func.func @evaluate(%x: tensor<4x4x32xf32> {ps.name = "x"}, %y: tensor<3x16x32xf32> {ps.name = "y"})
      -> (tensor<4x4x16xf32> {ps.name = "a"}, tensor<3x16x16xf32> {ps.name = "b"}) {
    %few = ps.read @few {ps.phase = #ps.phase<evaluate>} : tensor<4x32x16xf32>
    %a = ps.contract %x [0, 1, 2], %few [0, 2, 3] -> [0, 1, 3] {ps.phase = #ps.phase<evaluate>} : (tensor<4x4x32xf32>, tensor<4x32x16xf32>) -> tensor<4x4x16xf32> loc("net.few")
    %fit = ps.read @fit {ps.phase = #ps.phase<evaluate>} : tensor<3x32x16xf32>
    %b = ps.contract %y [0, 1, 2], %fit [0, 2, 3] -> [0, 1, 3] {ps.phase = #ps.phase<evaluate>} : (tensor<3x16x32xf32>, tensor<3x32x16xf32>) -> tensor<3x16x16xf32> loc("net.fit")
    return %a, %b : tensor<4x4x16xf32>, tensor<3x16x16xf32>
  }
}
