// The policy tables seeds the rows of embedding tables, and nothing else.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=dp=2,tp=4 --ps-seed-shardings=policy=tables 2>&1 | FileCheck %s --check-prefix=GPT
// GPT-NOT: remark
// GPT: @wte.weight {{.*}}ps.reason = "tables: row parallel, an embedding table{{.*}}; 50 rows are padded to 52 for 4 shards", ps.sharding = #ps.sharding<@mesh, [{"tp"}, {}]>
// Positions do not depend on an input, so their table has no seed. MLPs and heads have none either.
// GPT-NOT: ps.variable parameter {{.*}}ps.sharding

// RUN: ps-opt %s --split-input-file --ps-set-mesh=mesh=tp=2 --ps-seed-shardings=policy=tables 2>&1 | FileCheck %s
// Only the second module has a remark.
// CHECK: remark: --sharding-policy tables: no embedding table is indexed by an input; no parameter is split
// CHECK-NOT: remark

// The table is stored with its dims exchanged: its rows are dim 1 of the parameter.
// CHECK-DAG: @table {{.*}}ps.reason = "tables: row parallel, an embedding table at {{.*}}", ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}]>
// CHECK-DAG: @up names [{{.*}}] : tensor<16x8xf32>
// CHECK-DAG: @down names [{{.*}}] : tensor<8x16xf32>
ps.variable parameter @table names ["table"] : tensor<8x10xf32>
ps.variable parameter @up names ["up"] : tensor<16x8xf32>
ps.variable parameter @down names ["down"] : tensor<8x16xf32>
func.func @transposed_table(%ids: tensor<4xi64> {ps.name = "ids"}) -> tensor<4x8xf32> {
  %t = ps.read @table : tensor<8x10xf32>
  %u = ps.read @up : tensor<16x8xf32>
  %d = ps.read @down : tensor<8x16xf32>
  %0 = ps.transpose %t [1, 0] : tensor<8x10xf32> -> tensor<10x8xf32>
  %1 = ps.embedding %0, %ids : tensor<10x8xf32>, tensor<4xi64> -> tensor<4x8xf32>
  %2 = ps.contract %1 [0, 1], %u [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %3 = ps.relu %2 : tensor<4x16xf32>
  %4 = ps.contract %3 [0, 1], %d [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// -----

// Twin: the table is an input of the model. A remark reports that nothing is split.
// CHECK-DAG: @scale names [{{.*}}] : tensor<8xf32>
ps.variable parameter @scale names ["scale"] : tensor<8xf32>
func.func @given_rows(%rows: tensor<10x8xf32> {ps.name = "rows"}, %ids: tensor<4xi64> {ps.name = "ids"}) -> tensor<4x8xf32> {
  %s = ps.read @scale : tensor<8xf32>
  %0 = ps.embedding %rows, %ids : tensor<10x8xf32>, tensor<4xi64> -> tensor<4x8xf32>
  %1 = ps.broadcast %s dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %2 = ps.mul %0, %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
