// The policy megatron+sp seeds a sequence split on the contraction that reads an attention, with a
// lower priority than its other seeds.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=megatron+sp | FileCheck %s
// Parameters have the seeds of the policy megatron.
// CHECK-DAG: @h.0.attn.q.weight {{.*}}column parallel, heads of attention{{.*}}[{"tp"}, {}]
// CHECK-DAG: @h.0.attn.out.weight {{.*}}row parallel, reads attention{{.*}}[{}, {"tp"}]
// Forward and @evaluate have one such seed each, backward has none.
// CHECK: func.func @micro_batch
// CHECK: ps.attention
// CHECK: ps.contract {{.*}}ps.later_shardings = [#ps.sharding<@mesh, [{}, {"tp"}, {}]>]{{.*}}ps.phase = #ps.phase<forward>, ps.reason = "megatron+sp: sequence of 8 split into 2 shards"
// CHECK-NOT: ps.later_shardings
// CHECK: func.func @evaluate
// CHECK: ps.contract {{.*}}ps.later_shardings = [#ps.sharding<@mesh, [{}, {"tp"}, {}]>]
// CHECK-NOT: ps.later_shardings

// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=tp=3 --ps-seed-shardings=policy=megatron+sp | FileCheck %s --check-prefix=PADDED
// PADDED: ps.reason = "megatron+sp: sequence of 8 split into 3 shards, padded to 9"

// Twins: the policy megatron, and one device along tp.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=tp=2 --ps-seed-shardings=policy=megatron | FileCheck %s --check-prefix=NONE
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=dp=2,tp=1 --ps-seed-shardings=policy=megatron+sp 2>&1 | FileCheck %s --check-prefix=NONE
// NONE-NOT: ps.later_shardings
// NONE-NOT: remark

// RUN: ps-opt %s --split-input-file --ps-set-mesh=mesh=tp=2 --ps-seed-shardings=policy=megatron+sp 2>&1 | FileCheck %s --check-prefix=FORMS
// FORMS: remark: --sharding-policy megatron+sp: no attention with split heads is followed by a row parallel contraction, so sequences are not split (as with megatron)

// Batch and sequence are one dim, which is split within each sample.
// FORMS: ps.attention
// FORMS: ps.contract {{.*}}ps.later_shardings = [#ps.sharding<@mesh, [(2 x 6 {"tp"}), {}]>]
ps.variable parameter @q : tensor<8x8xf32>
ps.variable parameter @o : tensor<8x8xf32>
func.func @flat(%x: tensor<12x8xf32> {ps.name = "x"}) -> tensor<12x8xf32> {
  %q = ps.read @q : tensor<8x8xf32>
  %o = ps.read @o : tensor<8x8xf32>
  %0 = ps.contract %x [0, 1], %q [2, 1] -> [0, 2] : (tensor<12x8xf32>, tensor<8x8xf32>) -> tensor<12x8xf32>
  %1 = ps.reshape %0 : tensor<12x8xf32> -> tensor<2x6x2x4xf32>
  %2 = ps.transpose %1 [0, 2, 1, 3] : tensor<2x6x2x4xf32> -> tensor<2x2x6x4xf32>
  %3, %4 = ps.attention %2, %2, %2 causal scale 0.5 : (tensor<2x2x6x4xf32>, tensor<2x2x6x4xf32>, tensor<2x2x6x4xf32>) -> (tensor<2x2x6x4xf32>, tensor<2x2x6xf32>)
  %5 = ps.transpose %3 [0, 2, 1, 3] : tensor<2x2x6x4xf32> -> tensor<2x6x2x4xf32>
  %6 = ps.reshape %5 : tensor<2x6x2x4xf32> -> tensor<12x8xf32>
  %7 = ps.contract %6 [0, 1], %o [2, 1] -> [0, 2] : (tensor<12x8xf32>, tensor<8x8xf32>) -> tensor<12x8xf32>
  return %7 : tensor<12x8xf32>
}

// -----

// Twin: heads that do not come from a contraction are not split, nor is their sequence. A remark
// reports this.
// FORMS: func.func @no_projection
// FORMS-NOT: ps.later_shardings
ps.variable parameter @o : tensor<8x8xf32>
func.func @no_projection(%x: tensor<2x2x6x4xf32> {ps.name = "x"}) -> tensor<2x6x8xf32> {
  %o = ps.read @o : tensor<8x8xf32>
  %0, %1 = ps.attention %x, %x, %x causal scale 0.5 : (tensor<2x2x6x4xf32>, tensor<2x2x6x4xf32>, tensor<2x2x6x4xf32>) -> (tensor<2x2x6x4xf32>, tensor<2x2x6xf32>)
  %2 = ps.transpose %0 [0, 2, 1, 3] : tensor<2x2x6x4xf32> -> tensor<2x6x2x4xf32>
  %3 = ps.reshape %2 : tensor<2x6x2x4xf32> -> tensor<2x6x8xf32>
  %4 = ps.contract %3 [0, 1, 2], %o [3, 2] -> [0, 1, 3] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
  return %4 : tensor<2x6x8xf32>
}
