// RUN: ps-opt %s -ps-simplify-collectives | FileCheck %s

ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>

// CHECK-LABEL: func.func @gather_of_slice
// CHECK-NEXT: return %arg0
func.func @gather_of_slice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = ps.shard_slice %x over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  %1 = ps.all_gather %0 over ["tp"] dim 0 : tensor<2xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// The twin of each rewrite follows it.
// CHECK-LABEL: func.func @gather_of_slice_over_another_axis_stays
// CHECK: ps.all_gather
func.func @gather_of_slice_over_another_axis_stays(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = ps.shard_slice %x over ["dp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  %1 = ps.all_gather %0 over ["tp"] dim 0 : tensor<2xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @slice_of_gather
// CHECK-NEXT: return %arg0
func.func @slice_of_gather(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = ps.all_gather %x over ["tp"] dim 0 : tensor<2xf32> -> tensor<4xf32>
  %1 = ps.shard_slice %0 over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @slice_of_gather_over_another_axis_stays
// CHECK: ps.all_gather
// CHECK: ps.shard_slice
func.func @slice_of_gather_over_another_axis_stays(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = ps.all_gather %x over ["dp"] dim 0 : tensor<2xf32> -> tensor<4xf32>
  %1 = ps.shard_slice %0 over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @slice_of_equal_elements_is_a_constant
// CHECK-NEXT: %[[C:.*]] = ps.constant dense<1.000000e-01> : tensor<2xf32>
// CHECK-NEXT: return %[[C]]
func.func @slice_of_equal_elements_is_a_constant() -> tensor<2xf32> {
  %0 = ps.constant dense<0.1> : tensor<4xf32>
  %1 = ps.shard_slice %0 over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @slice_of_other_constants_stays
// CHECK: ps.shard_slice
// CHECK: ps.shard_slice
func.func @slice_of_other_constants_stays() -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = ps.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = ps.shard_slice %0 over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  %uneven = ps.constant dense<0.1> : tensor<3xf32>
  %2 = ps.shard_slice %uneven over ["tp"] dim 0 : tensor<3xf32> -> tensor<2xf32>
  return %1, %2 : tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @sliced_sum_is_scattered
// CHECK-NEXT: %[[R:.*]] = ps.reduce_scatter sum %arg0 over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
// CHECK-NEXT: return %[[R]]
func.func @sliced_sum_is_scattered(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0 = ps.all_reduce sum %x over ["tp"] : tensor<4xf32>
  %1 = ps.shard_slice %0 over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @sum_that_is_used_whole_stays
// CHECK: ps.all_reduce
// CHECK: ps.shard_slice
func.func @sum_that_is_used_whole_stays(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0 = ps.all_reduce sum %x over ["tp"] : tensor<4xf32>
  %1 = ps.shard_slice %0 over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  return %0, %1 : tensor<4xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @uneven_slice_stays
// CHECK: ps.shard_slice
func.func @uneven_slice_stays(%x: tensor<3xf32>) -> tensor<2xf32> {
  %0 = ps.all_reduce sum %x over ["tp"] : tensor<3xf32>
  %1 = ps.shard_slice %0 over ["tp"] dim 0 : tensor<3xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @two_sums_become_one
// CHECK-NEXT: %[[S:.*]] = ps.add %arg0, %arg1
// CHECK-NEXT: %[[R:.*]] = ps.all_reduce sum %[[S]] over ["tp"]
// CHECK-NEXT: return %[[R]]
func.func @two_sums_become_one(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = ps.all_reduce sum %x over ["tp"] : tensor<4xf32>
  %1 = ps.all_reduce sum %y over ["tp"] : tensor<4xf32>
  %2 = ps.add %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @two_maxima_stay
// CHECK-COUNT-2: ps.all_reduce max
func.func @two_maxima_stay(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = ps.all_reduce max %x over ["tp"] : tensor<4xf32>
  %1 = ps.all_reduce max %y over ["tp"] : tensor<4xf32>
  %2 = ps.add %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @equal_gathers_are_one
// CHECK-COUNT-1: ps.all_gather
// CHECK-NOT: ps.all_gather
// CHECK: return
func.func @equal_gathers_are_one(%x: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = ps.all_gather %x over ["tp"] dim 0 : tensor<2xf32> -> tensor<4xf32>
  %1 = ps.all_gather %x over ["tp"] dim 0 : tensor<2xf32> -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Backward repeats the gather of forward, so that the gathered value is not saved.
// CHECK-LABEL: func.func @gathers_of_two_phases_stay
// CHECK-COUNT-2: ps.all_gather
func.func @gathers_of_two_phases_stay(%x: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = ps.all_gather %x over ["tp"] dim 0 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<2xf32> -> tensor<4xf32>
  %1 = ps.all_gather %x over ["tp"] dim 0 {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<2xf32> -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

ps.variable accumulator @sum : tensor<2xf32>

// CHECK-LABEL: func.func @sum_that_is_rounded_is_of_rounded_terms
// CHECK-NEXT: %[[T:.*]] = ps.convert %arg0 : tensor<4xf32> -> tensor<4xbf16>
// CHECK-NEXT: %[[S:.*]] = ps.reduce_scatter sum %[[T]] over ["tp"] dim 0 : tensor<4xbf16> -> tensor<2xbf16>
// CHECK-NEXT: %[[W:.*]] = ps.convert %[[S]] : tensor<2xbf16> -> tensor<2xf32>
// CHECK-NEXT: ps.accumulate @sum, %[[W]]
func.func @sum_that_is_rounded_is_of_rounded_terms(%x: tensor<4xf32>) {
  %0 = ps.reduce_scatter sum %x over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  %1 = ps.convert %0 : tensor<2xf32> -> tensor<2xbf16>
  %2 = ps.convert %1 : tensor<2xbf16> -> tensor<2xf32>
  ps.accumulate @sum, %2 : tensor<2xf32>
  return
}

// CHECK-LABEL: func.func @sum_that_is_used_as_it_is_stays
// CHECK: ps.reduce_scatter sum %arg0 over ["tp"] dim 0 : tensor<4xf32>
func.func @sum_that_is_used_as_it_is_stays(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0 = ps.reduce_scatter sum %x over ["tp"] dim 0 : tensor<4xf32> -> tensor<2xf32>
  %1 = ps.convert %0 : tensor<2xf32> -> tensor<2xbf16>
  %2 = ps.convert %1 : tensor<2xbf16> -> tensor<2xf32>
  ps.accumulate @sum, %2 : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// Gathering before dequantizing sends one byte per element.
// CHECK-LABEL: func.func @gather_of_dequantized
// CHECK: %[[Q:.*]] = ps.all_gather %arg0 over ["tp"] dim 0 {{.*}}tensor<2xf8E4M3FN> -> tensor<4xf8E4M3FN>
// CHECK: %[[U:.*]] = ps.broadcast %arg1 dims [] {{.*}}tensor<f32> -> tensor<4xf32>
// CHECK: ps.dequantize %[[Q]], %[[U]]
func.func @gather_of_dequantized(%q: tensor<2xf8E4M3FN>, %u: tensor<f32>) -> tensor<4xbf16> {
  %s = ps.broadcast %u dims [] : tensor<f32> -> tensor<2xf32>
  %x = ps.dequantize %q, %s : tensor<2xf8E4M3FN>, tensor<2xf32> -> tensor<2xbf16>
  %y = ps.all_gather %x over ["tp"] dim 0 : tensor<2xbf16> -> tensor<4xbf16>
  return %y : tensor<4xbf16>
}

// CHECK-LABEL: func.func @gather_of_dequantized_by_many_scales_stays
// CHECK: ps.all_gather {{.*}}bf16
func.func @gather_of_dequantized_by_many_scales_stays(%q: tensor<2xf8E4M3FN>, %u: tensor<2xf32>) -> tensor<4xbf16> {
  %x = ps.dequantize %q, %u : tensor<2xf8E4M3FN>, tensor<2xf32> -> tensor<2xbf16>
  %y = ps.all_gather %x over ["tp"] dim 0 : tensor<2xbf16> -> tensor<4xbf16>
  return %y : tensor<4xbf16>
}
