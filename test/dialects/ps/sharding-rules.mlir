// RUN: ps-opt %s -ps-print-sharding-rules -verify-diagnostics -o /dev/null

func.func @elementwise(%x: tensor<4x8xf32>, %c: tensor<4x8xi1>) {
  // expected-remark @below {{([i, j], [i, j]) -> ([i, j]), i = 4, j = 8 linear {0, 1}}}
  %0 = ps.add %x, %x : tensor<4x8xf32>
  // expected-remark @below {{([i, j], [i, j]) -> ([i, j]), i = 4, j = 8 linear {0} {1}}}
  %1 = ps.mul %x, %x : tensor<4x8xf32>
  // expected-remark @below {{([i, j], [i, j]) -> ([i, j]), i = 4, j = 8 linear {0}}}
  %2 = ps.div %x, %x : tensor<4x8xf32>
  // expected-remark @below {{([i, j], [i, j], [i, j]) -> ([i, j]), i = 4, j = 8 linear {1, 2}}}
  %3 = ps.select %c, %x, %x : tensor<4x8xi1>, tensor<4x8xf32>
  // expected-remark-re @below {{{{^}}([i, j]) -> ([i, j]), i = 4, j = 8{{$}}}}
  %4 = ps.exp %x : tensor<4x8xf32>
  // expected-remark-re @below {{{{^}}() -> ([i, j]), i = 4, j = 8{{$}}}}
  %5 = ps.iota dim 1 : tensor<4x8xi64>
  return
}

func.func @reduce(%x: tensor<4x8xf32>) {
  // expected-remark @below {{([i, j]) -> ([i]), i = 4, j = 8 reduction(sum) linear {0}}}
  %0 = ps.reduce sum %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  // expected-remark-re @below {{{{^}}([i, j]) -> ([j]), i = 4 reduction(max), j = 8{{$}}}}
  %1 = ps.reduce max %x dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  return
}

func.func @sort(%x: tensor<4x8xf32>, %i: tensor<4x8xi64>) {
  // expected-remark-re @below {{{{^}}([i, j]) -> ([i, j], [i, j]), i = 4, j = 8 whole("a sort compares all elements of the dim"){{$}}}}
  %0, %1 = ps.sort %x dim 1 : tensor<4x8xf32> -> tensor<4x8xi64>
  // expected-remark @below {{([i, j], [i, j]) -> ([i, j]), i = 4 whole("a sort compares all elements of the dim"), j = 8 linear {0}}}
  %2 = ps.sort_grad %x, %i dim 0 : tensor<4x8xf32>, tensor<4x8xi64>
  return
}

func.func @reshape(%x: tensor<2x3x24xf32>, %y: tensor<4x6xf32>, %z: tensor<5x1x2xf32>) {
  // expected-remark @below {{([l, k, j x i]) -> ([l, k, j, i]), i = 6, j = 4, k = 3, l = 2 linear {0}}}
  %0 = ps.reshape %x : tensor<2x3x24xf32> -> tensor<2x3x4x6xf32>
  // expected-remark @below {{([k, j, i]) -> ([k x j, i])}}
  %1 = ps.reshape %x : tensor<2x3x24xf32> -> tensor<6x24xf32>
  // At the first and the last dim, the greatest common divisor of both sizes is a factor: i = 2
  // below, and also n = 2 in the second reshape. The other factors cannot be split.
  // expected-remark @below {{([k, j x i]) -> ([m, l x i])}}
  %2 = ps.reshape %y : tensor<4x6xf32> -> tensor<3x8xf32>
  // expected-remark @below {{([n x k, j x i]) -> ([n x m, l x i])}}
  %4 = ps.reshape %y : tensor<4x6xf32> -> tensor<6x4xf32>
  // expected-remark @below {{([j, 1, i]) -> ([j, i]), i = 2, j = 5 linear {0}}}
  %3 = ps.reshape %z : tensor<5x1x2xf32> -> tensor<5x2xf32>
  return
}

func.func @movement(%x: tensor<4x8xf32>, %y: tensor<8xf32>) {
  // expected-remark @below {{([i, j]) -> ([j, i]), i = 4, j = 8 linear {0}}}
  %0 = ps.transpose %x [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  // expected-remark @below {{([j]) -> ([i, j]), i = 4, j = 8 linear {0}}}
  %1 = ps.broadcast %y dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  return
}

func.func @parts(%x: tensor<4x1152xf32>, %y: tensor<4x384xf32>) {
  // A slice, pad or concat at the border of a factor keeps the other factors.
  // expected-remark @below {{([i, k x j]) -> ([i, j]), i = 4, j = 384, k = 3 whole("slice takes part of the dim") linear {0}}}
  %0 = ps.slice %x [0, 384] to [4, 768] by [1, 1] : tensor<4x1152xf32> -> tensor<4x384xf32>
  // expected-remark @below {{([i, j]) -> ([i, k x j]), i = 4, j = 384, k = 3 whole("pad extends the dim") linear {0}}}
  %1 = ps.pad %y low [0, 384] high [0, 384] by [1, 1] : tensor<4x384xf32> -> tensor<4x1152xf32>
  // expected-remark @below {{([i, j], [i, j]) -> ([i, k x j]), i = 4, j = 384, k = 2 whole("concat joins parts of the dim") linear {0, 1}}}
  %2 = ps.concat %y, %y dim 1 : (tensor<4x384xf32>, tensor<4x384xf32>) -> tensor<4x768xf32>
  // Twin: with strides or borders inside a factor, nothing can be split.
  // expected-remark @below {{([i, j]) -> ([i, k]), i = 4, j = 1152 whole("slice takes part of the dim"), k = 576 whole("slice takes part of the dim") linear {0}}}
  %3 = ps.slice %x [0, 0] to [4, 1152] by [1, 2] : tensor<4x1152xf32> -> tensor<4x576xf32>
  return
}

func.func @convolution(%x: tensor<2x4x8xf32>, %w: tensor<6x4x3xf32>, %g: tensor<6x2x3xf32>, %d: tensor<4x1x3xf32>, %y: tensor<2x6x8xf32>) {
  // expected-remark @below {{([i, j, l], [k, j, m]) -> ([i, k, n]), i = 2, j = 4 reduction(sum), k = 6, l = 8 whole("windows of neighboring shards overlap")}}
  %0 = ps.convolution %x, %w by [1] low [1] dilation [1] : (tensor<2x4x8xf32>, tensor<6x4x3xf32>) -> tensor<2x6x8xf32>
  // Two groups of two input channels and three output channels each.
  // expected-remark @below {{([i, j x k, m], [j x l, k, n]) -> ([i, j x l, o]), i = 2, j = 2, k = 2 reduction(sum), l = 3,}}
  %1 = ps.convolution %x, %g by [1] low [1] dilation [1] : (tensor<2x4x8xf32>, tensor<6x2x3xf32>) -> tensor<2x6x8xf32>
  // A depthwise convolution.
  // expected-remark @below {{([i, j, k], [j, 1, l]) -> ([i, j, m]), i = 2, j = 4,}}
  %2 = ps.convolution %x, %d by [1] low [1] dilation [1] : (tensor<2x4x8xf32>, tensor<4x1x3xf32>) -> tensor<2x4x8xf32>
  // expected-remark @below {{([i, k, n], [k, j, m]) -> ([i, j, l]), i = 2, j = 4, k = 6 reduction(sum),}}
  %3 = ps.convolution_input %y, %w by [1] low [1] dilation [1] : (tensor<2x6x8xf32>, tensor<6x4x3xf32>) -> tensor<2x4x8xf32>
  // expected-remark @below {{([i, j, l], [i, k, n]) -> ([k, j, m]), i = 2 reduction(sum), j = 4, k = 6,}}
  %4 = ps.convolution_kernel %x, %y by [1] low [1] dilation [1] : (tensor<2x4x8xf32>, tensor<2x6x8xf32>) -> tensor<6x4x3xf32>
  // expected-remark @below {{([i, j, k]) -> ([i, j, l]), i = 2, j = 4, k = 8 whole("windows of neighboring shards overlap"), l = 4 whole}}
  %5 = ps.max_pool %x window [2] by [2] low [0] dilation [1] : tensor<2x4x8xf32> -> tensor<2x4x4xf32>
  return
}
