// RUN: ps-opt %s -ps-recognize-attention-masks -canonicalize | FileCheck %s

// CHECK-LABEL: func.func @causal
// CHECK-NOT: mask
// CHECK: ps.attention %arg0, %arg1, %arg2 causal scale 1.000000e+00 {ps.attention_form = "causal"}
func.func @causal(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %i = ps.iota dim 2 : tensor<2x1x8x8xi64>
  %j = ps.iota dim 3 : tensor<2x1x8x8xi64>
  %m = ps.compare le %j, %i : tensor<2x1x8x8xi64> -> tensor<2x1x8x8xi1>
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xi1>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xf32>
}

// An additive mask for key <= query and key > query - 3 is a causal window of 3.
// CHECK-LABEL: func.func @window
// CHECK: ps.attention %arg0, %arg1, %arg2 causal window 3 scale 1.000000e+00 {ps.attention_form = "causal, window 3"}
func.func @window(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %i = ps.iota dim 0 : tensor<8xi64>
  %row = ps.broadcast %i dims [2] : tensor<8xi64> -> tensor<1x1x8x8xi64>
  %column = ps.broadcast %i dims [3] : tensor<8xi64> -> tensor<1x1x8x8xi64>
  %three = ps.constant dense<3> : tensor<1x1x8x8xi64>
  %low = ps.sub %row, %three : tensor<1x1x8x8xi64>
  %a = ps.compare ge %row, %column : tensor<1x1x8x8xi64> -> tensor<1x1x8x8xi1>
  %b = ps.compare gt %column, %low : tensor<1x1x8x8xi64> -> tensor<1x1x8x8xi1>
  %ab = ps.and %a, %b : tensor<1x1x8x8xi1>
  %zero = ps.constant dense<0.0> : tensor<1x1x8x8xf32>
  %far = ps.constant dense<-3.40282347E+38> : tensor<1x1x8x8xf32>
  %m = ps.select %ab, %zero, %far : tensor<1x1x8x8xi1>, tensor<1x1x8x8xf32>
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<1x1x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xf32>
}

// An input is nonzero for the keys that are not padding.
// CHECK-LABEL: func.func @causal_and_padding
// CHECK: %[[REAL:.*]] = ps.compare ne %arg3
// CHECK: ps.attention %arg0, %arg1, %arg2 padding %[[REAL]] causal scale 1.000000e+00 {ps.attention_form = "causal, padding"}
func.func @causal_and_padding(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>, %real: tensor<2x8xi64>) -> tensor<2x4x8x16xf32> {
  %b = ps.convert %real : tensor<2x8xi64> -> tensor<2x8xi1>
  %r = ps.reshape %b : tensor<2x8xi1> -> tensor<2x1x1x8xi1>
  %s = ps.reshape %r : tensor<2x1x1x8xi1> -> tensor<2x8xi1>
  %p = ps.broadcast %s dims [0, 3] : tensor<2x8xi1> -> tensor<2x1x8x8xi1>
  %i = ps.iota dim 2 : tensor<2x1x8x8xi64>
  %j = ps.iota dim 3 : tensor<2x1x8x8xi64>
  %c = ps.compare le %j, %i : tensor<2x1x8x8xi64> -> tensor<2x1x8x8xi1>
  %m = ps.and %c, %p : tensor<2x1x8x8xi1>
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xi1>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xf32>
}

// The same mask, written as a multiplication of bools.
// CHECK-LABEL: func.func @bools_multiplied
// CHECK: ps.attention %arg0, %arg1, %arg2 padding %arg3 causal scale 1.000000e+00 {ps.attention_form = "causal, padding"}
func.func @bools_multiplied(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>, %real: tensor<2x8xi1>) -> tensor<2x4x8x16xf32> {
  %p = ps.broadcast %real dims [0, 3] : tensor<2x8xi1> -> tensor<2x1x8x8xi1>
  %i = ps.iota dim 2 : tensor<2x1x8x8xi64>
  %j = ps.iota dim 3 : tensor<2x1x8x8xi64>
  %c = ps.compare le %j, %i : tensor<2x1x8x8xi64> -> tensor<2x1x8x8xi1>
  %m = ps.mul %c, %p : tensor<2x1x8x8xi1>
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xi1>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xf32>
}

// With a finite mask value, a query whose keys are all padding gives these keys equal weights. Such
// a mask stays an additive mask, narrowed to one row for all queries. A mask of -inf becomes
// padding.
// CHECK-LABEL: func.func @finite_padding
// CHECK: ps.attention %arg0, %arg1, %arg2 mask %{{.*}} scale 1.000000e+00 {ps.attention_form = "additive padding"} : ({{.*}}, tensor<2x1x1x8xf32>)
// CHECK: ps.attention %arg0, %arg1, %arg2 padding %arg3 scale 1.000000e+00 {ps.attention_form = "padding"}
func.func @finite_padding(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>, %real: tensor<2x8xi1>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) {
  %p = ps.broadcast %real dims [0, 3] : tensor<2x8xi1> -> tensor<2x1x8x8xi1>
  %zero = ps.constant dense<0.0> : tensor<2x1x8x8xf32>
  %far = ps.constant dense<-3.40282347E+38> : tensor<2x1x8x8xf32>
  %never = ps.constant dense<0xFF800000> : tensor<2x1x8x8xf32>
  %m = ps.select %p, %zero, %far : tensor<2x1x8x8xi1>, tensor<2x1x8x8xf32>
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  %n = ps.select %p, %zero, %never : tensor<2x1x8x8xi1>, tensor<2x1x8x8xf32>
  %o2, %l2 = ps.attention %q, %k, %v mask %n scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o, %o2 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
}

// Twins: a mask strictly below the diagonal is not causal, and a mask from an input is unknown.
// CHECK-LABEL: func.func @strictly_below
// CHECK: mask
// CHECK-SAME: {ps.attention_form = "mask"}
func.func @strictly_below(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %i = ps.iota dim 2 : tensor<2x1x8x8xi64>
  %j = ps.iota dim 3 : tensor<2x1x8x8xi64>
  %m = ps.compare lt %j, %i : tensor<2x1x8x8xi64> -> tensor<2x1x8x8xi1>
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xi1>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xf32>
}

// CHECK-LABEL: func.func @from_outside
// CHECK: ps.attention %arg0, %arg1, %arg2 mask %arg3 scale
func.func @from_outside(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>, %m: tensor<2x1x8x8xi1>) -> tensor<2x4x8x16xf32> {
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xi1>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xf32>
}

// Hugging Face form: the inverted mask with its ones replaced by a large negative value. The
// narrowed mask is computed once for both attention ops.
// CHECK-LABEL: func.func @inverted_padding
// CHECK-NOT: 2x1x8x8
// CHECK: %[[HIDDEN:.*]] = ps.convert {{.*}} : tensor<2x1x1x8xf32> -> tensor<2x1x1x8xi1>
// CHECK: %[[ROW:.*]] = ps.select %[[HIDDEN]]
// CHECK: ps.attention %arg0, %arg1, %arg2 mask %[[ROW]] scale 1.000000e+00 {ps.attention_form = "additive padding"}
// CHECK: ps.attention %arg1, %arg0, %arg2 mask %[[ROW]] scale 1.000000e+00 {ps.attention_form = "additive padding"}
func.func @inverted_padding(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>, %real: tensor<2x8xi64>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) {
  %p = ps.broadcast %real dims [0, 3] : tensor<2x8xi64> -> tensor<2x1x8x8xi64>
  %f = ps.convert %p : tensor<2x1x8x8xi64> -> tensor<2x1x8x8xf32>
  %one = ps.constant dense<1.0> : tensor<2x1x8x8xf32>
  %i = ps.sub %one, %f : tensor<2x1x8x8xf32>
  %h = ps.convert %i : tensor<2x1x8x8xf32> -> tensor<2x1x8x8xi1>
  %far = ps.constant dense<-3.40282347E+38> : tensor<2x1x8x8xf32>
  %m = ps.select %h, %far, %i : tensor<2x1x8x8xi1>, tensor<2x1x8x8xf32>
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  %o2, %l2 = ps.attention %k, %q, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o, %o2 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
}

// Twin: causal and padding combined give every query its own mask row, so nothing is narrowed.
// CHECK-LABEL: func.func @causal_and_finite_padding
// CHECK: ps.attention %arg0, %arg1, %arg2 mask %{{.*}} scale 1.000000e+00 {ps.attention_form = "additive mask"} : ({{.*}}, tensor<2x1x8x8xf32>)
func.func @causal_and_finite_padding(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>, %real: tensor<2x8xi1>) -> tensor<2x4x8x16xf32> {
  %p = ps.broadcast %real dims [0, 3] : tensor<2x8xi1> -> tensor<2x1x8x8xi1>
  %i = ps.iota dim 2 : tensor<2x1x8x8xi64>
  %j = ps.iota dim 3 : tensor<2x1x8x8xi64>
  %c = ps.compare le %j, %i : tensor<2x1x8x8xi64> -> tensor<2x1x8x8xi1>
  %s = ps.and %c, %p : tensor<2x1x8x8xi1>
  %zero = ps.constant dense<0.0> : tensor<2x1x8x8xf32>
  %far = ps.constant dense<-3.40282347E+38> : tensor<2x1x8x8xf32>
  %m = ps.select %s, %zero, %far : tensor<2x1x8x8xi1>, tensor<2x1x8x8xf32>
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x16xf32>
}

// Evaluation of all elements recognizes a constant mask, whatever ops compute it. Example: the mask
// of OPT without padding.
// The second attention adds a distance, which weights keys and is not a mask.
// CHECK-LABEL: func.func @computed_scores
// CHECK: ps.attention %arg0, %arg1, %arg2 causal scale 1.000000e+00 {ps.attention_form = "causal"}
// CHECK: ps.attention %arg0, %arg1, %arg2 mask %{{.*}} scale 1.000000e+00 {ps.attention_form = "additive mask"}
func.func @computed_scores(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) {
  %i = ps.iota dim 2 : tensor<2x1x8x8xi64>
  %j = ps.iota dim 3 : tensor<2x1x8x8xi64>
  %c = ps.compare gt %j, %i : tensor<2x1x8x8xi64> -> tensor<2x1x8x8xi1>
  %zero = ps.constant dense<0.0> : tensor<2x1x8x8xf32>
  %one = ps.constant dense<1.0> : tensor<2x1x8x8xf32>
  %far = ps.constant dense<-3.40282347E+38> : tensor<2x1x8x8xf32>
  %above = ps.select %c, %far, %zero : tensor<2x1x8x8xi1>, tensor<2x1x8x8xf32>
  %f = ps.convert %c : tensor<2x1x8x8xi1> -> tensor<2x1x8x8xf32>
  %causal = ps.mul %above, %f : tensor<2x1x8x8xf32>
  %sum = ps.add %causal, %one : tensor<2x1x8x8xf32>
  %padding = ps.compare eq %sum, %zero : tensor<2x1x8x8xf32> -> tensor<2x1x8x8xi1>
  %m = ps.select %padding, %far, %causal : tensor<2x1x8x8xi1>, tensor<2x1x8x8xf32>
  %o, %l = ps.attention %q, %k, %v mask %m scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  %d = ps.sub %j, %i : tensor<2x1x8x8xi64>
  %distance = ps.convert %d : tensor<2x1x8x8xi64> -> tensor<2x1x8x8xf32>
  %n = ps.select %c, %far, %distance : tensor<2x1x8x8xi1>, tensor<2x1x8x8xf32>
  %o2, %l2 = ps.attention %q, %k, %v mask %n scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x1x8x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %o, %o2 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
}
