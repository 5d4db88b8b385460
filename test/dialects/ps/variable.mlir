// RUN: ps-opt %s -split-input-file -verify-diagnostics | ps-opt -split-input-file | FileCheck %s

// CHECK: ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor, "pp" = 1 : pipeline>
ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor, "pp" = 1 : pipeline>

// CHECK: ps.variable parameter @wte names ["wte.weight", "lm_head.weight"] init #ps.file<"m.pt2:data/weights/weight_0"> : tensor<8x4xf32>
ps.variable parameter @wte names ["wte.weight", "lm_head.weight"] init #ps.file<"m.pt2:data/weights/weight_0"> : tensor<8x4xf32>
// CHECK: ps.variable parameter @part init #ps.file<"m.safetensors:c_attn.weight", shape = [4, 12], slice = [0:4, 4:8]> frozen : tensor<4x4xf32>
ps.variable parameter @part init #ps.file<"m.safetensors:c_attn.weight", shape = [4, 12], slice = [0:4, 4:8]> frozen : tensor<4x4xf32>
// CHECK: ps.variable parameter @drawn init #ps.distribution<normal, 0.000000e+00, 2.000000e-02> : tensor<4xf32>
ps.variable parameter @drawn init #ps.distribution<normal, 0.0, 0.02> : tensor<4xf32>
// CHECK: ps.variable gradient @wte.grad of @wte : tensor<8x4xf32>
ps.variable gradient @wte.grad of @wte : tensor<8x4xf32>
// CHECK: ps.variable scalar @lr init dense<1.000000e-03> : tensor<f32>
ps.variable scalar @lr init dense<1.0e-3> : tensor<f32>
// CHECK: ps.variable buffer @table init dense<[1, 2]> : tensor<2xi64> transient {ps.note}
ps.variable buffer @table init dense<[1, 2]> : tensor<2xi64> transient {ps.note}

// CHECK-LABEL: func @access
func.func @access(%ok: tensor<i1>, %ref: !ps.ref<tensor<8x4xf32>>) {
  // CHECK: %[[W:.*]] = ps.read @wte : tensor<8x4xf32>
  %w = ps.read @wte : tensor<8x4xf32>
  // CHECK: %[[V:.*]] = ps.read %[[REF:.*]] : !ps.ref<tensor<8x4xf32>>
  %v = ps.read %ref : !ps.ref<tensor<8x4xf32>>
  // CHECK: ps.write @wte, %[[V]] if %{{.*}} : tensor<8x4xf32>
  ps.write @wte, %v if %ok : tensor<8x4xf32>
  // CHECK: ps.write %[[REF]], %[[W]] : !ps.ref<tensor<8x4xf32>>
  ps.write %ref, %w : !ps.ref<tensor<8x4xf32>>
  // CHECK: ps.accumulate @wte.grad, %[[W]] {ps.phase = #ps.phase<backward_weight>} : tensor<8x4xf32>
  ps.accumulate @wte.grad, %w {ps.phase = #ps.phase<backward_weight>} : tensor<8x4xf32>
  return
}

// -----

// From level 3 on, an access has the type of the local shard.
// CHECK-LABEL: module attributes {ps.level = #ps.level<partitioned>}
module attributes {ps.level = #ps.level<partitioned>} {
  ps.mesh @mesh <"tp" = 2 : tensor>
  ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>} : tensor<8x5xf32>
  func.func @local() {
    // CHECK: ps.read @w : tensor<8x3xf32>
    %0 = ps.read @w : tensor<8x3xf32>
    return
  }
}

// -----

module attributes {ps.level = #ps.level<partitioned>} {
  ps.mesh @mesh <"tp" = 2 : tensor>
  // expected-note @below {{variable declared here}}
  ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>} : tensor<8x5xf32>
  func.func @read_c2_local() {
    // expected-error @below {{has value type 'tensor<8x5xf32>', the variable has type 'tensor<8x3xf32>' (read_c2)}}
    %0 = ps.read @w : tensor<8x5xf32>
    return
  }
}

// -----

// expected-error @below {{axis "dp" is named twice (mesh_c1)}}
ps.mesh @mesh_c1 <"dp" = 2 : data, "dp" = 2 : tensor>

// -----

// expected-error @below {{axis "dp" has size 0, expected at least 1 (mesh_c2)}}
ps.mesh @mesh_c2 <"dp" = 0 : data>

// -----

// expected-error @below {{has 2 axes of kind pipeline, expected at most 1 (mesh_c3)}}
ps.mesh @mesh_c3 <"a" = 2 : pipeline, "b" = 2 : pipeline>

// -----

// expected-error @below {{has 2 axes of kind multiple, expected at most 1 (mesh_c3)}}
ps.mesh @mesh_c3 <"a" = 2 : multiple, "b" = 4 : multiple>

// -----

// expected-error @below {{belongs to @x, which is not a variable (variable_c1)}}
ps.variable copy @variable_c1 of @x : tensor<4xf32>

// -----

// expected-error @below {{of kind gradient needs 'of @variable' (variable_c2)}}
ps.variable gradient @variable_c2 : tensor<4xf32>

// -----

// expected-note @below {{variable declared here}}
ps.variable parameter @w : tensor<4xf32>
// expected-error @below {{gradient has type 'tensor<5xf32>', its variable has type 'tensor<4xf32>' (variable_c3)}}
ps.variable gradient @variable_c3 of @w : tensor<5xf32>

// -----

// expected-error @below {{has type 'tensor<4xf32>', its initial value has type 'tensor<f32>' (variable_c4)}}
ps.variable scalar @variable_c4 init dense<1.0> : tensor<f32> : tensor<4xf32>

// -----

func.func @read_c2() {
  // expected-error @below {{names @x, which is not a variable (read_c2)}}
  %0 = ps.read @x : tensor<4xf32>
  return
}

// -----

func.func @read_c2_ref(%ref: !ps.ref<tensor<4xf32>>) {
  // expected-error @below {{has value type 'tensor<5xf32>', the ref has type '!ps.ref<tensor<4xf32>>' (read_c2)}}
  %0 = "ps.read"(%ref) : (!ps.ref<tensor<4xf32>>) -> tensor<5xf32>
  return
}

// -----

func.func @read_c1() {
  // expected-error @below {{needs either a variable's symbol or a ref (read_c1)}}
  %0 = "ps.read"() : () -> tensor<5xf32>
  return
}

// -----

ps.variable parameter @w : tensor<4xf32>
func.func @write_c1(%a: tensor<4xf32>) {
  // expected-error @below {{is one of several writes to its variable, expected one write per function (write_c1)}}
  ps.write @w, %a : tensor<4xf32>
  // expected-note @below {{also written here}}
  ps.write @w, %a : tensor<4xf32>
  return
}
