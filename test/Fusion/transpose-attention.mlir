// RUN: split-file %s %t
// RUN: ps-opt -ps-transpose-attention %t/heads.mlir | FileCheck %t/heads.mlir
// RUN: ps-opt -ps-transpose-attention -ps-outline-segments -ps-fuse %t/heads.mlir | FileCheck %t/heads.mlir --check-prefix=FUSED
// RUN: ps-opt -ps-transpose-attention %t/others.mlir | FileCheck %t/others.mlir

//--- heads.mlir

// Heads of a model: attention writes the rows of features that the next matmul reads. The gradient
// reads the saved result through a transpose, and writes rows of features too.
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[Q:.*]] = ps.transpose %{{.*}} [0, 2, 1, 3]
// CHECK: %[[O:.*]], %[[L:.*]] = ps.attention %[[Q]], %[[Q]], %[[Q]] scale 2.500000e-01 transposed {{.*}} -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
// CHECK-NEXT: %[[BACK:.*]] = ps.transpose %[[O]] [0, 2, 1, 3] {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64}
// CHECK-NEXT: ps.exp %[[O]]
// CHECK: ps.attention_grad %{{.*}}, %[[Q]], %[[Q]], %[[Q]], %[[BACK]], %[[L]] scale 2.500000e-01 transposed {{.*}} -> (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>)

// The backward run receives the operand of each transpose. No kernel copies heads.
// FUSED-NOT: ps.fused{{.*}}tensor<2x4x8x16xf32>
// FUSED: ps.attention {{.*}}transposed
// FUSED-NOT: ps.fused{{.*}}tensor<2x4x8x16xf32>
// FUSED: ps.attention_grad {{.*}}transposed
// FUSED-NOT: ps.fused{{.*}}tensor<2x4x8x16xf32>
module {
  ps.mesh @mesh <"dp" = 1 : data>
  ps.variable accumulator @dx : tensor<2x8x64xf32>
  func.func @micro_batch(%x: tensor<2x8x64xf32> {ps.name = "x"}) -> (tensor<2x8x64xf32> {ps.name = "y"}) {
    %h = ps.exp %x {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<2x8x64xf32>
    %r = ps.reshape %h {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<2x8x64xf32> -> tensor<2x8x4x16xf32>
    %q = ps.transpose %r [0, 2, 1, 3] {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<2x8x4x16xf32> -> tensor<2x4x8x16xf32>
    %o, %l = ps.attention %q, %q, %q scale 0.25 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
    %t = ps.transpose %o [0, 2, 1, 3] {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<2x4x8x16xf32> -> tensor<2x8x4x16xf32>
    %e = ps.exp %t {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<2x8x4x16xf32>
    %y = ps.reshape %e {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<2x8x4x16xf32> -> tensor<2x8x64xf32>
    %g = ps.transpose %e [0, 2, 1, 3] {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<2x8x4x16xf32> -> tensor<2x4x8x16xf32>
    %dq, %dk, %dv = ps.attention_grad %g, %q, %q, %q, %o, %l scale 0.25 {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
    %a = ps.add %dk, %dv {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<2x4x8x16xf32>
    %b = ps.transpose %a [0, 2, 1, 3] {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<2x4x8x16xf32> -> tensor<2x8x4x16xf32>
    %c = ps.transpose %dq [0, 2, 1, 3] {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<2x4x8x16xf32> -> tensor<2x8x4x16xf32>
    %d = ps.add %b, %c {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<2x8x4x16xf32>
    %dx = ps.reshape %d {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<2x8x4x16xf32> -> tensor<2x8x64xf32>
    ps.accumulate @dx, %dx {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<2x8x64xf32>
    return %y : tensor<2x8x64xf32>
  }
}

//--- others.mlir
// Twins, which do not change: no transpose follows, or one of other dims.
// CHECK-LABEL: func.func @others
// CHECK-NOT: transposed
func.func @others(%q: tensor<2x4x8x16xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32>) {
  %o, %l = ps.attention %q, %q, %q scale 0.25 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  %t = ps.transpose %o [0, 1, 3, 2] : tensor<2x4x8x16xf32> -> tensor<2x4x16x8xf32>
  return %t, %o : tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32>
}
