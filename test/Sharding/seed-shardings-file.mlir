// Reads a sharding policy file, which maps name globs to dims and their axes, and reports its
// errors.
// RUN: split-file %s %t
// RUN: ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/good.json | FileCheck %s
// CHECK-DAG: @fc.weight {{.*}}[{"tp"}, {}]
// CHECK-DAG: @out.weight {{.*}}[{}, {"tp"}]
// CHECK-DAG: @out.bias names ["out.bias"] : tensor
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/glob.json 2>&1 | FileCheck %s --check-prefix=GLOB
// GLOB: glob.json: no parameter matches "fd.*"; the nearest names are 'fc.weight',
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/axis.json 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: axis.json: the mesh has no axis "tq"; it has "dp", "tp"
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/twice.json 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: twice.json: axis "tp" is used twice for fc.weight
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/dim.json 2>&1 | FileCheck %s --check-prefix=DIM
// DIM: dim.json: fc.weight has no dim "2"; it has 2 dims, counted from 0
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/none.json 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: --sharding-policy {{.*}}none.json: No such file or directory
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,pp=2 --ps-seed-shardings=policy=%t/pipeline.json 2>&1 | FileCheck %s --check-prefix=PIPELINE
// PIPELINE: error: --sharding-policy {{.*}}pipeline.json: "fc.*": {"0"}: axis "pp" is of kind pipeline: its devices run different stages of the model, so tensors cannot be split over this axis; use "dp"{{$}}
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=pp=2 --ps-seed-shardings=policy=%t/pipeline.json 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: so tensors cannot be split over this axis; the mesh has no axis that splits tensors, such as tp=2{{$}}
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/same-dim.json 2>&1 | FileCheck %s --check-prefix=SAME-DIM
// SAME-DIM: error: --sharding-policy {{.*}}same-dim.json: "fc.*": "0" and "-2" both name dim 0 of fc.weight, which has 2 dims; give the axes of a dim under one key{{$}}

// Splits of factors of a dim, and of results of ops. `#0` is the first of the ops with that name.
// RUN: ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/values.json | FileCheck %s --check-prefix=VALUES
// VALUES-DAG: @fc.weight {{.*}}[(4 x 4 {"tp"}), {}]
// VALUES: ps.contract {{.*}} {ps.later_shardings = [#ps.sharding<@mesh, [{}, {"tp"}]>], ps.reason = "policy {{.*}}values.json: \22h.*:contract#0\22"}
// VALUES-NOT: later_shardings
// The policy may be the text of such a file, as in a plan.
// RUN: ps-opt %t/model.mlir --pass-pipeline='builtin.module(ps-set-mesh{mesh=tp=2},ps-seed-shardings{policy={{"fc.*":{"0":["tp"]}}}})' | FileCheck %s --check-prefix=INLINE
// INLINE: @fc.weight {{.*}}[{"tp"}, {}]
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/size.json 2>&1 | FileCheck %s --check-prefix=SIZE
// SIZE: size.json: "fc.*": {"0"}: the factors of fc.weight have 12 elements, but the dim has 16
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/key.json 2>&1 | FileCheck %s --check-prefix=KEY
// KEY: key.json: "fc.*": {"0"}: a factor has no key "axis"; its keys are size and axes
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/op.json 2>&1 | FileCheck %s --check-prefix=OP
// OP: op.json: no op of the model matches "h.0:gelu"; the only name is 'h.0:contract'{{$}}
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/number.json 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: number.json: "h.0:contract#x": 'x' is not the number of an op, such as #0

//--- good.json
{"fc.*": {"0": ["tp"]}, "*.weight": {"-1": ["tp"]}}
//--- glob.json
{"fd.*": {"0": ["tp"]}}
//--- axis.json
{"fc.*": {"0": ["tq"]}}
//--- twice.json
{"fc.*": {"0": ["tp"], "1": ["tp"]}}
//--- dim.json
{"fc.*": {"2": ["tp"]}}
//--- pipeline.json
{"fc.*": {"0": ["pp"]}}
//--- same-dim.json
{"fc.*": {"0": ["tp"], "-2": ["dp"]}}
//--- values.json
{"fc.*": {"0": [{"size": 4}, {"size": 4, "axes": ["tp"]}]}, "h.*:contract#0": {"1": ["tp"]}}
//--- size.json
{"fc.*": {"0": [{"size": 2, "axes": ["tp"]}, {"size": 6}]}}
//--- key.json
{"fc.*": {"0": [{"size": 16, "axis": ["tp"]}]}}
//--- op.json
{"h.0:gelu": {"0": ["tp"]}}
//--- number.json
{"h.0:contract#x": {"0": ["tp"]}}
//--- model.mlir
ps.variable parameter @fc.weight names ["fc.weight"] : tensor<16x8xf32>
ps.variable parameter @out.weight names ["out.weight"] : tensor<8x16xf32>
ps.variable parameter @out.bias names ["out.bias"] : tensor<8xf32>
func.func @forward(%x: tensor<4x8xf32> {ps.name = "x"}) -> tensor<4x8xf32> {
  %fc = ps.read @fc.weight : tensor<16x8xf32>
  %out = ps.read @out.weight : tensor<8x16xf32>
  %0 = ps.contract %x [0, 1], %fc [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32> loc("h.0")
  %1 = ps.contract %0 [0, 1], %out [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32> loc("h.0")
  return %1 : tensor<4x8xf32>
}
