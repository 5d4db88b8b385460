// A GPT training step under megatron+sp has the collectives of Korthikanti et al., 2022.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-optimizer="optimizer=adamw(lr=0.001)" --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=megatron+sp --ps-propagate-shardings --ps-verify-planned --ps-explain-shardings -o %t | FileCheck %s --check-prefix=PLAN
// RUN: ps-opt %t --ps-find-segments --ps-partition --ps-simplify-collectives --ps-explain-collectives -o /dev/null | FileCheck %s
// RUN: FileCheck %s --check-prefix=MARKS < %t

// PLAN: activations
// PLAN: {{.*}}gpt.mlir{{.*}} [{"dp"}, {"tp"}, {}] megatron+sp: sequence of 8 split into 2 shards

// Forward scatters the embedding and two results of the layer. It gathers before the attention, the
// MLP and the last projection. Backward mirrors forward and repeats its gathers. The gradients of
// query, key and value are summed before the scatter.
// CHECK:      collectives
// CHECK-NEXT: count
// CHECK-NEXT: 1 {{.*}}reduce_scatter tp forward result of ps.embedding
// CHECK-NEXT: 3 {{.*}}all_gather tp forward operand 0 of ps.contract
// CHECK-NEXT: 2 {{.*}}reduce_scatter tp forward result of ps.contract
// CHECK-NEXT: 3 {{.*}}all_reduce tp forward inside ps.cross_entropy
// CHECK-NEXT: 2 {{.*}}reduce_scatter tp backward result of ps.contract
// CHECK-NEXT: 3 {{.*}}all_gather tp backward operand 1 of ps.contract
// CHECK-NEXT: 2 {{.*}}all_gather tp backward operand 0 of ps.contract
// CHECK-NEXT: 1 {{.*}}reduce_scatter tp backward result of ps.add
// CHECK-NEXT: 1 {{.*}}all_gather tp backward operand 0 of ps.embedding_grad
// CHECK-NEXT: 1 {{.*}}reduce_scatter tp evaluate result of ps.embedding
// CHECK-NEXT: 3 {{.*}}all_gather tp evaluate operand 0 of ps.contract
// CHECK-NEXT: 2 {{.*}}reduce_scatter tp evaluate result of ps.contract
// CHECK-NEXT: 3 {{.*}}all_reduce tp evaluate inside ps.cross_entropy
// CHECK-NOT:  tp {{forward|backward|evaluate}}
// CHECK:      9 {{.*}}all_reduce dp, tp update gradient read

// Gradients of norms, of biases after row parallel contractions and of position embeddings are
// partial over tp. Other gradients are not.
// MARKS-DAG: gradient @h.0.ln_1.weight.grad {{.*}}[{}], partial = {"dp": sum, "tp": sum}>
// MARKS-DAG: gradient @h.0.attn.out.bias.grad {{.*}}[{}], partial = {"dp": sum, "tp": sum}>
// MARKS-DAG: gradient @wpe.weight.grad {{.*}}[{}, {}], partial = {"dp": sum, "tp": sum}>
// MARKS-DAG: gradient @h.0.mlp.up.bias.grad {{.*}}[{"tp"}], partial = {"dp": sum}>
// MARKS-DAG: gradient @h.0.attn.out.weight.grad {{.*}}[{}, {"tp"}], partial = {"dp": sum}>
// MARKS: func.func @micro_batch
// MARKS: ps.embedding {{.*}}[{"dp"}, {"tp"}, {}]
// MARKS: ps.layer_norm {{.*}}[{"dp"}, {"tp"}, {}]
// MARKS: ps.attention {{.*}}[{"dp"}, {"tp"}, {}, {}]
// MARKS: ps.contract {{.*}}[{"dp"}, {"tp"}, {}]
// MARKS: ps.layer_norm {{.*}}[{"dp"}, {"tp"}, {}]
// MARKS: ps.gelu {{.*}}[{"dp"}, {}, {"tp"}]
// MARKS: ps.layer_norm_grad {{.*}}[{"dp"}, {"tp"}, {}]
// MARKS-NOT: ps.later_shardings

// Twin: the policy megatron does not split the sequence of any value.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=megatron --ps-propagate-shardings --ps-explain-shardings | FileCheck %s --check-prefix=TWIN
// TWIN-NOT: activations
// TWIN-NOT: ps.layer_norm {{.*}}[{"dp"}, {"tp"}, {}]

// Batch and sequence are one dim: its split over tp extends the split of the batch over dp.
// RUN: ps-opt %s --split-input-file --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=replicated --ps-propagate-shardings | FileCheck %s --check-prefix=FLAT
// FLAT-LABEL: func.func @flat
// FLAT: ps.sin {{.*}}[#ps.sharding<@mesh, [(4 {"dp"} x 6 {"tp"}), {}]>]
// FLAT: ps.add {{.*}}[#ps.sharding<@mesh, [(4 {"dp"} x 6 {"tp"}), {}]>]
// FLAT: ps.reshape {{.*}}[#ps.sharding<@mesh, [{"dp"}, {"tp"}, {}]>]
func.func @flat(%x: tensor<24x8xf32> {ps.name = "x"}, %y: tensor<24x8xf32> {ps.name = "y"}) -> tensor<4x6x8xf32> {
  %0 = ps.sin %x {ps.later_shardings = [#ps.sharding<@mesh, [(4 x 6 {"tp"}), {}]>]} : tensor<24x8xf32>
  %1 = ps.add %0, %y : tensor<24x8xf32>
  %2 = ps.reshape %1 : tensor<24x8xf32> -> tensor<4x6x8xf32>
  return %2 : tensor<4x6x8xf32>
}
