// Seeds the parameters of a one-layer GPT by structure and its inputs by batch.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=megatron | FileCheck %s
// CHECK-DAG: @wte.weight {{.*}}megatron: vocabulary parallel{{.*}}#ps.sharding<@mesh, [{"tp"}, {}]>
// CHECK-DAG: @h.0.attn.q.weight {{.*}}column parallel, heads of attention{{.*}}[{"tp"}, {}]
// CHECK-DAG: @h.0.attn.k.bias {{.*}}column parallel, heads of attention{{.*}}[{"tp"}]
// CHECK-DAG: @h.0.attn.v.weight {{.*}}column parallel, heads of attention{{.*}}[{"tp"}, {}]
// CHECK-DAG: @h.0.attn.out.weight {{.*}}row parallel, reads attention{{.*}}[{}, {"tp"}]
// CHECK-DAG: @h.0.mlp.up.weight {{.*}}column parallel, first of a pair{{.*}}[{"tp"}, {}]
// CHECK-DAG: @h.0.mlp.up.bias {{.*}}column parallel, first of a pair{{.*}}[{"tp"}]
// CHECK-DAG: @h.0.mlp.down.weight {{.*}}row parallel, second of a pair{{.*}}[{}, {"tp"}]
// Fewer heads than ranks are padded, with a warning. As many heads as ranks give no warning.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=tp=8 --ps-seed-shardings=policy=megatron -o %t 2>&1 | FileCheck %s --check-prefix=HEADS
// HEADS: warning: attention has 6 heads to split over 8 ranks of "tp": 2 ranks compute only padding; axis sizes that divide the number of heads are 1, 2, 3, 6{{$}}
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=tp=6 --ps-seed-shardings=policy=megatron -o %t 2>&1 | FileCheck %s --check-prefix=ENOUGH --allow-empty
// ENOUGH-NOT: warning
// Parameters that match no pattern have no seed.
// CHECK-DAG: @wpe.weight names ["wpe.weight"] : tensor
// CHECK-DAG: @h.0.ln_1.weight names ["h.0.ln_1.weight"] : tensor
// CHECK-DAG: @h.0.attn.out.bias names ["h.0.attn.out.bias"] : tensor
// CHECK: func.func @micro_batch(%{{.*}}: tensor<4x8xi64> {ps.name = "ids", ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>}

// Twin: with one device along tp, there is nothing to split.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=dp=2,tp=1 --ps-seed-shardings=policy=megatron | FileCheck %s --check-prefix=ONE
// ONE-NOT: ps.variable parameter {{.*}}ps.sharding

// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=replicated | FileCheck %s --check-prefix=WHOLE
// WHOLE: @h.0.attn.q.weight {{.*}}ps.reason = "policy replicated", ps.sharding = #ps.sharding<@mesh, [{}, {}]>

// Six heads over four ranks are padded by whole heads, and the vocabulary by rows.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=tp=4 --ps-seed-shardings=policy=megatron | FileCheck %s --check-prefix=PADDED
// PADDED-DAG: @wte.weight {{.*}}50 rows are padded to 52 for 4 shards"{{.*}}[{"tp"}, {}]
// PADDED-DAG: @h.0.attn.q.weight {{.*}}6 heads are padded to 8 for 4 shards"{{.*}}[(6 {"tp"} x 8), {}]
// PADDED-DAG: @h.0.attn.out.weight {{.*}}[{}, (6 {"tp"} x 8)]

// A fused projection for query, key and value is split within each of the three.
// RUN: ps-opt %S/inputs/gpt-fused.mlir --ps-autodiff --ps-set-mesh=mesh=tp=2 --ps-seed-shardings=policy=megatron | FileCheck %s --check-prefix=FUSED
// FUSED-DAG: @h.0.attn.c_attn.weight {{.*}}[(3 x 48 {"tp"}), {}]
// FUSED-DAG: @h.0.attn.c_attn.bias {{.*}}[(3 x 48 {"tp"})]

// RUN: not ps-opt %S/inputs/gpt.mlir --ps-set-mesh=mesh=dp=3 --ps-seed-shardings 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: --mesh: input "ids" has a batch of 4 (dim 0), which is not divisible by 3 data shards
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff="batch-dims=ids=1;labels=none" --ps-set-mesh=mesh=dp=2 --ps-seed-shardings | FileCheck %s --check-prefix=DIMS
// DIMS: ps.batch_dim = 1 : i64, ps.name = "ids", ps.sharding = #ps.sharding<@mesh, [{}, {"dp"}]>{{.*}}ps.batch_dim = -1 : i64, ps.name = "labels", ps.sharding = #ps.sharding<@mesh, [{}, {}]>
// RUN: not ps-opt %S/inputs/gpt.mlir --ps-set-mesh=mesh=dp=2 --ps-seed-shardings=policy=best 2>&1 | FileCheck %s --check-prefix=POLICY
// POLICY: error: --sharding-policy best: unknown; use megatron, megatron+sp, replicated, searched, searched+memory, tables or FILE.json
// RUN: not ps-opt %S/inputs/gpt.mlir --ps-seed-shardings 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: error: the module has no ps.mesh; run ps-set-mesh first
