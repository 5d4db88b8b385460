// Reads a sharding policy file, which maps name globs to dims and their axes, and reports its
// errors.
// RUN: split-file %s %t
// RUN: ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/good.json | FileCheck %s
// CHECK-DAG: @fc.weight {{.*}}[{"tp"}, {}]
// CHECK-DAG: @out.weight {{.*}}[{}, {"tp"}]
// CHECK-DAG: @out.bias names ["out.bias"] : tensor
// RUN: not ps-opt %t/model.mlir --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=%t/glob.json 2>&1 | FileCheck %s --check-prefix=GLOB
// GLOB: glob.json: no parameter matches "fd.*"; parameters are fc.weight, out.weight, out.bias
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
//--- model.mlir
ps.variable parameter @fc.weight names ["fc.weight"] : tensor<16x8xf32>
ps.variable parameter @out.weight names ["out.weight"] : tensor<8x16xf32>
ps.variable parameter @out.bias names ["out.bias"] : tensor<8xf32>
