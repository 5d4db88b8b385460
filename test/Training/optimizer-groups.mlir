// RUN: rm -rf %t && split-file %s %t && cd %t
// RUN: ps-opt m.mlir "-ps-optimizer=optimizer=\"@good.json;sgd(lr=1)\"" | FileCheck m.mlir
// RUN: ps-opt m.mlir "-ps-optimizer=optimizer=@whole.json" | FileCheck m.mlir --check-prefix=WHOLE
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@good.json" 2>&1 | FileCheck m.mlir --check-prefix=LEFT
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@unknown.json" 2>&1 | FileCheck m.mlir --check-prefix=UNKNOWN
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@twice.json" 2>&1 | FileCheck m.mlir --check-prefix=TWICE
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@key.json" 2>&1 | FileCheck m.mlir --check-prefix=KEY
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@top.json" 2>&1 | FileCheck m.mlir --check-prefix=TOP
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@spec.json" 2>&1 | FileCheck m.mlir --check-prefix=SPEC
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@glob.json" 2>&1 | FileCheck m.mlir --check-prefix=GLOB
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@names.json" 2>&1 | FileCheck m.mlir --check-prefix=NAMES
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@empty.json" 2>&1 | FileCheck m.mlir --check-prefix=EMPTY
// RUN: not ps-opt m.mlir "-ps-optimizer=optimizer=@missing.json" 2>&1 | FileCheck m.mlir --check-prefix=MISSING

//--- good.json
{"groups": [{"optimizer": "sgd(lr=0.5)", "parameters": ["h[0].bias", "tied"]}]}
//--- whole.json
{"groups": [{"optimizer": "sgd(lr=0.5)", "parameters": ["w", "v", "h[0].bias"]}]}
//--- unknown.json
{"groups": [{"optimizer": "sgd(lr=0.5)", "parameters": ["w"]}, {"optimizer": "adam", "parameters": ["vv"]}]}
//--- twice.json
{"groups": [{"optimizer": "sgd(lr=0.5)", "parameters": ["w"]}, {"optimizer": "adam", "parameters": ["v", "w"]}]}
//--- key.json
{"groups": [{"optimizer": "sgd(lr=0.5)", "params": ["w"]}]}
//--- top.json
{"groups": [], "lr": 1}
//--- spec.json
{"groups": [{"optimizer": "sgd(lr=x)", "parameters": ["w"]}]}
//--- glob.json
{"groups": [{"optimizer": "w=sgd(lr=1)", "parameters": ["w"]}]}
//--- names.json
{"groups": [{"optimizer": "sgd(lr=1)", "parameters": ["w", 3]}]}
//--- empty.json
{"groups": [{"optimizer": "sgd(lr=1)", "parameters": []}]}

//--- m.mlir
// Names are exact, so brackets match themselves. A parameter may have any of its names.
// CHECK-DAG: ps.variable scalar @lr.0 init dense<5.000000e-01>
// CHECK-DAG: ps.variable scalar @lr.1 init dense<1.000000e+00>
// CHECK-DAG: ps.variable parameter @w {{.*}}ps.lr = @lr.1
// CHECK-DAG: ps.variable parameter @v {{.*}}ps.lr = @lr.0
// CHECK-DAG: ps.variable parameter @"h[0].bias" {{.*}}ps.lr = @lr.0
// WHOLE: ps.variable scalar @lr init dense<5.000000e-01>
// WHOLE-NOT: @lr.0
// LEFT: error: --optimizer @good.json: no group has the parameter 'w'; add it to "parameters" of a group, or freeze it with --freeze
// UNKNOWN: error: --optimizer @unknown.json groups[1]: the model has no parameter 'vv'; the nearest names are 'v'
// TWICE: error: --optimizer @twice.json: "groups[1].parameters" has "w", which groups[0] has too; remove one
// KEY: error: --optimizer @key.json: "groups[0].params" is not a key; expected "optimizer" or "parameters"
// TOP: error: --optimizer @top.json: "lr" is not a key; expected "groups"
// SPEC: error: --optimizer @spec.json: "groups[0].optimizer" is 'sgd(lr=x)', column 8: expected a number
// GLOB: error: --optimizer @glob.json: "groups[0].optimizer" has a pattern; list the names in "parameters" instead
// NAMES: error: --optimizer @names.json: "groups[0].parameters" has 3; expected names of parameters
// EMPTY: error: --optimizer @empty.json: "groups[0].parameters" is not a list of names of parameters
// MISSING: error: --optimizer @missing.json: No such file or directory
ps.variable parameter @w : tensor<4x8xf32>
ps.variable parameter @v names ["v", "tied"] : tensor<4xf32>
ps.variable parameter @"h[0].bias" : tensor<4xf32>
ps.variable gradient @w.grad of @w : tensor<4x8xf32>
ps.variable gradient @v.grad of @v : tensor<4xf32>
ps.variable gradient @b.grad of @"h[0].bias" : tensor<4xf32>
func.func @update() {
  return
}
