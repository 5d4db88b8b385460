// RUN: ps-opt %s -ps-split-fused-variables | FileCheck %s

// CHECK: ps.variable parameter @fused.part0 names ["fused"] init #ps.file<"m.pt2:data/weights/weight_0", shape = [8, 12], slice = [0:8, 0:4]> : tensor<8x4xf32>
// CHECK: ps.variable parameter @fused.part1 names ["fused"] init #ps.file<"m.pt2:data/weights/weight_0", shape = [8, 12], slice = [0:8, 4:12]> : tensor<8x8xf32>
// CHECK-NOT: @fused :
ps.variable parameter @fused names ["fused"] init #ps.file<"m.pt2:data/weights/weight_0"> : tensor<8x12xf32>
// CHECK: ps.variable parameter @bias.part0 names ["bias"]
ps.variable parameter @bias names ["bias"] init #ps.file<"m.pt2:data/weights/weight_1"> : tensor<12xf32>
// CHECK: ps.variable parameter @whole names ["whole"]
ps.variable parameter @whole names ["whole"] init #ps.file<"m.pt2:data/weights/weight_2"> : tensor<8x12xf32>

// CHECK-LABEL: func.func @parts
// CHECK-NOT: ps.slice
// CHECK: return
func.func @parts(%x: tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2x8xf32>) {
  %w = ps.read @fused : tensor<8x12xf32>
  %b = ps.read @bias : tensor<12xf32>
  %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<2x8xf32>, tensor<8x12xf32>) -> tensor<2x12xf32>
  %c = ps.broadcast %b dims [1] : tensor<12xf32> -> tensor<2x12xf32>
  %z = ps.add %y, %c : tensor<2x12xf32>
  %p = ps.slice %z [0, 0] to [2, 4] by [1, 1] : tensor<2x12xf32> -> tensor<2x4xf32>
  %q = ps.slice %z [0, 4] to [2, 12] by [1, 1] : tensor<2x12xf32> -> tensor<2x8xf32>
  return %p, %q : tensor<2x4xf32>, tensor<2x8xf32>
}

// Twin: one part is never read, so the variable is not split.
// CHECK-LABEL: func.func @gap
// CHECK: ps.read @whole
// CHECK: ps.slice
func.func @gap(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
  %w = ps.read @whole : tensor<8x12xf32>
  %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<2x8xf32>, tensor<8x12xf32>) -> tensor<2x12xf32>
  %p = ps.slice %y [0, 0] to [2, 4] by [1, 1] : tensor<2x12xf32> -> tensor<2x4xf32>
  return %p : tensor<2x4xf32>
}

// A weight that several functions slice in the same way is split in all of them.
// CHECK: ps.variable parameter @shared.part0
// CHECK: ps.variable parameter @shared.part1
ps.variable parameter @shared names ["shared"] init #ps.file<"m.pt2:data/weights/weight_3"> : tensor<8x12xf32>

// CHECK-LABEL: func.func @shared_by_the_model
// CHECK-NOT: ps.slice
func.func @shared_by_the_model(%x: tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2x8xf32>) {
  %w = ps.read @shared : tensor<8x12xf32>
  %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<2x8xf32>, tensor<8x12xf32>) -> tensor<2x12xf32>
  %p = ps.slice %y [0, 0] to [2, 4] by [1, 1] : tensor<2x12xf32> -> tensor<2x4xf32>
  %q = ps.slice %y [0, 4] to [2, 12] by [1, 1] : tensor<2x12xf32> -> tensor<2x8xf32>
  return %p, %q : tensor<2x4xf32>, tensor<2x8xf32>
}
// CHECK-LABEL: func.func @shared_by_an_entry
// CHECK-NOT: ps.slice
func.func @shared_by_an_entry(%x: tensor<1x8xf32>) -> (tensor<1x4xf32>, tensor<1x8xf32>) attributes {ps.entry} {
  %w = ps.read @shared : tensor<8x12xf32>
  %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<1x8xf32>, tensor<8x12xf32>) -> tensor<1x12xf32>
  %p = ps.slice %y [0, 0] to [1, 4] by [1, 1] : tensor<1x12xf32> -> tensor<1x4xf32>
  %q = ps.slice %y [0, 4] to [1, 12] by [1, 1] : tensor<1x12xf32> -> tensor<1x8xf32>
  return %p, %q : tensor<1x4xf32>, tensor<1x8xf32>
}

// Twin: one function slices the weight in another way, so the weight stays whole.
// CHECK: ps.variable parameter @other names
ps.variable parameter @other names ["other"] init #ps.file<"m.pt2:data/weights/weight_4"> : tensor<8x12xf32>

// CHECK-LABEL: func.func @halves
// CHECK: ps.slice
func.func @halves(%x: tensor<2x8xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>) {
  %w = ps.read @other : tensor<8x12xf32>
  %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<2x8xf32>, tensor<8x12xf32>) -> tensor<2x12xf32>
  %p = ps.slice %y [0, 0] to [2, 6] by [1, 1] : tensor<2x12xf32> -> tensor<2x6xf32>
  %q = ps.slice %y [0, 6] to [2, 12] by [1, 1] : tensor<2x12xf32> -> tensor<2x6xf32>
  return %p, %q : tensor<2x6xf32>, tensor<2x6xf32>
}
// CHECK-LABEL: func.func @thirds
// CHECK: ps.slice
func.func @thirds(%x: tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2x8xf32>) {
  %w = ps.read @other : tensor<8x12xf32>
  %y = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<2x8xf32>, tensor<8x12xf32>) -> tensor<2x12xf32>
  %p = ps.slice %y [0, 0] to [2, 4] by [1, 1] : tensor<2x12xf32> -> tensor<2x4xf32>
  %q = ps.slice %y [0, 4] to [2, 12] by [1, 1] : tensor<2x12xf32> -> tensor<2x8xf32>
  return %p, %q : tensor<2x4xf32>, tensor<2x8xf32>
}
