// RUN: ps-opt -ps-fuse %s | FileCheck %s
// RUN: ps-opt -ps-fuse=max-chunks=64 %s | FileCheck %s --check-prefix=DEVICE

// A producer, a row op and its users form one kernel. Values used outside are results of the
// kernel.
// CHECK-LABEL: func.func @residual_and_norm
// CHECK: %[[K:.*]]:2 = ps.fused(
// CHECK: ps.add
// CHECK: ps.layer_norm
// CHECK: ps.mul
// CHECK: ps.yield
// CHECK-NOT: ps.fused
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @residual_and_norm(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %w: tensor<8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {ps.class = "c"} {
  %h = ps.add %a, %b : tensor<4x8xf32>
  %n, %r = ps.layer_norm %h epsilon 1.0e-5 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>
  %s = ps.broadcast %w dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %y = ps.mul %n, %s : tensor<4x8xf32>
  return %h, %y : tensor<4x8xf32>, tensor<4x8xf32>
}

// A sum over rows joins the kernel of its operand. Its partial sums need a workspace.
// CHECK-LABEL: func.func @bias_gradient
// CHECK: ps.fused({{.*}}ps.workspace = 64 : i64
// CHECK: ps.gelu_grad
// CHECK: ps.reduce
// CHECK-NOT: ps.fused
func.func @bias_gradient(%g: tensor<200x8xf32>, %x: tensor<200x8xf32>) -> (tensor<200x8xf32>, tensor<8xf32>)
    attributes {ps.class = "c"} {
  %d = ps.gelu_grad tanh %g, %x : tensor<200x8xf32>
  %s = ps.reduce sum %d dims [0] : tensor<200x8xf32> -> tensor<8xf32>
  return %d, %s : tensor<200x8xf32>, tensor<8xf32>
}

// A user of a sum over rows needs all rows, so it is a separate kernel.
// CHECK-LABEL: func.func @use_of_a_sum_over_rows
// CHECK: ps.fused
// CHECK: ps.reduce
// CHECK: ps.fused
// CHECK: ps.exp
func.func @use_of_a_sum_over_rows(%g: tensor<200x8xf32>) -> tensor<8xf32> attributes {ps.class = "c"} {
  %s = ps.reduce sum %g dims [0] : tensor<200x8xf32> -> tensor<8xf32>
  %e = ps.exp %s : tensor<8xf32>
  return %e : tensor<8xf32>
}

// The rows of the sum are not contiguous in the padded buffer, so padding is a separate kernel.
// CHECK-LABEL: func.func @padded_sum_over_rows
// CHECK: ps.fused
// CHECK: ps.reduce
// CHECK-NOT: ps.pad
// CHECK: ps.yield
// CHECK: ps.fused
// CHECK: ps.pad
func.func @padded_sum_over_rows(%a: tensor<4x3x8xf32>) -> tensor<4x6x8xf32> attributes {ps.class = "c"} {
  %s = ps.reduce sum %a dims [1] : tensor<4x3x8xf32> -> tensor<4x8xf32>
  %r = ps.reshape %s : tensor<4x8xf32> -> tensor<4x1x8xf32>
  %p = ps.pad %r low [0, 0, 0] high [0, 5, 0] by [1, 1, 1] : tensor<4x1x8xf32> -> tensor<4x6x8xf32>
  return %p : tensor<4x6x8xf32>
}

// Twin: padding after the last row keeps the sum contiguous at the start of the buffer.
// CHECK-LABEL: func.func @sum_over_rows_before_padding
// CHECK: ps.fused
// CHECK: ps.reduce
// CHECK-NEXT: ps.pad
// CHECK-NEXT: ps.yield
// CHECK-NOT: ps.fused
// CHECK: return
func.func @sum_over_rows_before_padding(%a: tensor<4x3x8xf32>) -> tensor<6x8xf32> attributes {ps.class = "c"} {
  %s = ps.reduce sum %a dims [1] : tensor<4x3x8xf32> -> tensor<4x8xf32>
  %p = ps.pad %s low [0, 0] high [2, 0] by [1, 1] : tensor<4x8xf32> -> tensor<6x8xf32>
  return %p : tensor<6x8xf32>
}

// A value read at [i, j] and at [j, i] is computed in an earlier kernel. One kernel would merge i
// and j into one loop.
// CHECK-LABEL: func.func @sum_with_its_transpose
// CHECK: ps.fused
// CHECK: ps.tanh
// CHECK: ps.yield
// CHECK: ps.fused
// CHECK: ps.add
func.func @sum_with_its_transpose(%a: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {ps.class = "c"} {
  %t = ps.tanh %a : tensor<8x8xf32>
  %p = ps.transpose %t [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %s = ps.add %t, %p : tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}

// Twin: a kernel argument may be read at [i, j] and [j, i] without merging loops.
// CHECK-LABEL: func.func @argument_with_its_transpose
// CHECK: ps.fused
// CHECK: ps.add
// CHECK: ps.tanh
// CHECK-NOT: ps.fused
// CHECK: return
func.func @argument_with_its_transpose(%a: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {ps.class = "c"} {
  %p = ps.transpose %a [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %s = ps.add %a, %p : tensor<8x8xf32>
  %t = ps.tanh %s : tensor<8x8xf32>
  return %t : tensor<8x8xf32>
}

// Differences of all pairs read the vector at i and at j, so an earlier kernel computes it.
// CHECK-LABEL: func.func @differences_of_pairs
// CHECK: ps.fused
// CHECK: ps.tanh
// CHECK: ps.yield
// CHECK: ps.fused
// CHECK: ps.sub
func.func @differences_of_pairs(%a: tensor<8xf32>) -> tensor<8x8xf32> attributes {ps.class = "c"} {
  %t = ps.tanh %a : tensor<8xf32>
  %i = ps.broadcast %t dims [0] : tensor<8xf32> -> tensor<8x8xf32>
  %j = ps.broadcast %t dims [1] : tensor<8xf32> -> tensor<8x8xf32>
  %d = ps.sub %i, %j : tensor<8x8xf32>
  return %d : tensor<8x8xf32>
}

// A contraction lies between two elementwise ops; fusing them would create a cycle.
// CHECK-LABEL: func.func @around_a_contraction
// CHECK: ps.fused
// CHECK: ps.contract
// CHECK: ps.fused
func.func @around_a_contraction(%a: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {ps.class = "c"} {
  %e = ps.exp %a : tensor<8x8xf32>
  %c = ps.contract %e [0, 1], %a [1, 2] -> [0, 2] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = ps.add %e, %c : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// The two contracted dims have opposite orders in the operands, so one operand is transposed.
// CHECK-LABEL: func.func @summed_in_opposite_orders
// CHECK-SAME: %[[A:.*]]: tensor<4x3x5xf32>, %[[B:.*]]: tensor<5x3x7xf32>
// CHECK: %[[T:.*]] = ps.fused(%[[B]])
// CHECK: ps.transpose %{{.*}} [2, 1, 0] : tensor<5x3x7xf32> -> tensor<7x3x5xf32>
// CHECK: ps.contract %[[A]] [0, 1, 2], %[[T]] [3, 1, 2] -> [0, 3] : (tensor<4x3x5xf32>, tensor<7x3x5xf32>) -> tensor<4x7xf32>
func.func @summed_in_opposite_orders(%a: tensor<4x3x5xf32>, %b: tensor<5x3x7xf32>) -> tensor<4x7xf32> attributes {ps.class = "c"} {
  %y = ps.contract %a [0, 1, 2], %b [2, 1, 3] -> [0, 3] : (tensor<4x3x5xf32>, tensor<5x3x7xf32>) -> tensor<4x7xf32>
  return %y : tensor<4x7xf32>
}

// The batch dim comes last in the result: a matmul with the batch first, then a transpose.
// CHECK-LABEL: func.func @batch_between
// CHECK: %[[P:.*]] = ps.contract
// CHECK-SAME: -> tensor<2x4x7xf32>
// CHECK: ps.transpose
func.func @batch_between(%a: tensor<4x2x3xf32>, %b: tensor<2x3x7xf32>) -> tensor<4x7x2xf32> attributes {ps.class = "c"} {
  %y = ps.contract %a [0, 1, 2], %b [1, 2, 3] -> [0, 3, 1] : (tensor<4x2x3xf32>, tensor<2x3x7xf32>) -> tensor<4x7x2xf32>
  return %y : tensor<4x7x2xf32>
}

// Twin: a contraction reads heads through strides without a copy, so there is nothing to fuse.
// CHECK-LABEL: func.func @heads_as_strides
// CHECK-NOT: ps.fused
// CHECK: return
func.func @heads_as_strides(%x: tensor<2x4x8xf32>, %k: tensor<2x4x8xf32>) -> tensor<2x2x4x4xf32>
    attributes {ps.class = "c"} {
  %a = ps.reshape %x : tensor<2x4x8xf32> -> tensor<2x4x2x4xf32>
  %q = ps.transpose %a [0, 2, 1, 3] : tensor<2x4x2x4xf32> -> tensor<2x2x4x4xf32>
  %b = ps.reshape %k : tensor<2x4x8xf32> -> tensor<2x4x2x4xf32>
  %l = ps.transpose %b [0, 2, 1, 3] : tensor<2x4x2x4xf32> -> tensor<2x2x4x4xf32>
  %s = ps.contract %q [0, 1, 2, 3], %l [0, 1, 4, 3] -> [0, 1, 2, 4]
      : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  return %s : tensor<2x2x4x4xf32>
}

// Heads that are merged into one dim cannot be read through strides and are copied once.
// CHECK-LABEL: func.func @joined_heads_are_copied
// CHECK: ps.fused
// CHECK: ps.transpose
// CHECK-NOT: ps.fused
// CHECK: ps.contract
func.func @joined_heads_are_copied(%o: tensor<2x2x4x4xf32>, %w: tensor<3x8xf32>) -> tensor<2x4x3xf32>
    attributes {ps.class = "c"} {
  %t = ps.transpose %o [0, 2, 1, 3] : tensor<2x2x4x4xf32> -> tensor<2x4x2x4xf32>
  %r = ps.reshape %t : tensor<2x4x2x4xf32> -> tensor<2x4x8xf32>
  %y = ps.contract %r [0, 1, 2], %w [3, 2] -> [0, 1, 3] : (tensor<2x4x8xf32>, tensor<3x8xf32>) -> tensor<2x4x3xf32>
  return %y : tensor<2x4x3xf32>
}

// An update that reads each element only at its own index writes in place. Its condition becomes a
// select.
// CHECK-LABEL: func.func @update_in_place
// CHECK: ps.read
// CHECK-NOT: ps.read
// CHECK: ps.select
// CHECK: ps.write %{{.*}}, %{{.*}} {ps.in_place}
func.func @update_in_place(%g: tensor<8xf32>, %ok: tensor<i1>, %w: !ps.ref<tensor<8xf32>>) attributes {ps.class = "c"} {
  %v = ps.read %w : !ps.ref<tensor<8xf32>>
  %n = ps.sub %v, %g : tensor<8xf32>
  ps.write %w, %n if %ok : !ps.ref<tensor<8xf32>>
  return
}

// A counter is updated in a kernel that computes a whole tensor from it. All threads read the old
// counter, so the kernel must not overwrite it.
// CHECK-LABEL: func.func @counter_beside_a_tensor
// CHECK: ps.fused
// CHECK-NOT: ps.in_place
// CHECK-LABEL: func.func @update_of_a_transposed
func.func @counter_beside_a_tensor(%g: tensor<8x16xf32>, %n: !ps.ref<tensor<f32>>) -> tensor<8x16xf32> attributes {ps.class = "c"} {
  %old = ps.read %n : !ps.ref<tensor<f32>>
  %one = ps.constant dense<1.0> : tensor<f32>
  %new = ps.add %old, %one : tensor<f32>
  ps.write %n, %new : !ps.ref<tensor<f32>>
  %all = ps.broadcast %new dims [] : tensor<f32> -> tensor<8x16xf32>
  %y = ps.div %g, %all : tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// An update that reads other indexes than it writes needs the old value for the whole kernel.
// CHECK-NOT: ps.in_place
func.func @update_of_a_transposed(%w: !ps.ref<tensor<8x8xf32>>) attributes {ps.class = "c"} {
  %v = ps.read %w : !ps.ref<tensor<8x8xf32>>
  %t = ps.transpose %v [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %n = ps.add %v, %t : tensor<8x8xf32>
  ps.write %w, %n : !ps.ref<tensor<8x8xf32>>
  return
}

// Only class functions are fused.
// CHECK-LABEL: func.func @not_a_class
// CHECK-NOT: ps.fused
func.func @not_a_class(%a: tensor<4xf32>) -> tensor<4xf32> {
  %e = ps.exp %a : tensor<4xf32>
  return %e : tensor<4xf32>
}

// Twin: ops of a function without a class are unchanged.
// CHECK-LABEL: func.func @no_class
// CHECK-NEXT: ps.exp
// CHECK-NEXT: ps.neg
func.func @no_class(%a: tensor<4xf32>) -> tensor<4xf32> {
  %e = ps.exp %a : tensor<4xf32>
  %n = ps.neg %e : tensor<4xf32>
  return %n : tensor<4xf32>
}

// On a GPU, a long sum is split: here 768 rows into 64 parts of 12 rows. Short sums and sums of
// 16-bit floats are not split.
// DEVICE-LABEL: func.func @square_of_norm
// DEVICE: ps.fused
// DEVICE: %[[CUT:.*]] = ps.reshape {{.*}} : tensor<768x256xf32> -> tensor<64x3072xf32>
// DEVICE: ps.reduce sum %[[CUT]] dims [1] : tensor<64x3072xf32> -> tensor<64xf32>
// DEVICE: ps.fused
// DEVICE: ps.reduce sum {{.*}} dims [0] : tensor<64xf32> -> tensor<f32>
// DEVICE: return
// CHECK-LABEL: func.func @square_of_norm
// CHECK-NOT: ps.reshape
// CHECK: ps.reduce sum {{.*}} dims [0, 1] : tensor<768x256xf32> -> tensor<f32>
func.func @square_of_norm(%g: tensor<768x256xf32>) -> tensor<f32> attributes {ps.class = "c"} {
  %q = ps.mul %g, %g : tensor<768x256xf32>
  %s = ps.reduce sum %q dims [0, 1] : tensor<768x256xf32> -> tensor<f32>
  return %s : tensor<f32>
}

// DEVICE-LABEL: func.func @short_and_narrow_sums
// DEVICE-NOT: ps.reshape
func.func @short_and_narrow_sums(%a: tensor<64x64xf32>, %b: tensor<768x256xbf16>) -> (tensor<f32>, tensor<bf16>)
    attributes {ps.class = "c"} {
  %s = ps.reduce sum %a dims [0, 1] : tensor<64x64xf32> -> tensor<f32>
  %t = ps.reduce sum %b dims [0, 1] : tensor<768x256xbf16> -> tensor<bf16>
  return %s, %t : tensor<f32>, tensor<bf16>
}
