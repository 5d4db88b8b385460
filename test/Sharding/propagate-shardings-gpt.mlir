// A GPT training step has exactly two activation all-reduces per layer in forward and two in
// backward.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-optimizer="optimizer=adamw(lr=0.001)" --ps-set-mesh=mesh=dp=2,tp=2 --ps-seed-shardings=policy=megatron --ps-propagate-shardings --ps-verify-planned --ps-explain-shardings -o %t | FileCheck %s --check-prefix=PLAN
// RUN: ps-opt %t --ps-find-segments --ps-partition --ps-explain-collectives -o /dev/null | FileCheck %s
// RUN: FileCheck %s --check-prefix=MARKS < %t

// PLAN: parameters
// Forward all-reduces the embedding and two results of the layer. Backward all-reduces one gradient
// of the final projection and two of the layer: one after the first contraction of the MLP and one
// for the sum over query, key and value.
// CHECK:      collectives
// CHECK-NEXT: count
// CHECK-NEXT: 1 {{.*}}all_reduce tp forward result of ps.embedding
// CHECK-NEXT: 2 {{.*}}all_reduce tp forward result of ps.contract
// CHECK-NEXT: 3 {{.*}}all_reduce tp forward inside ps.cross_entropy
// CHECK-NEXT: 2 {{.*}}all_reduce tp backward result of ps.contract
// CHECK-NEXT: 1 {{.*}}all_reduce tp backward result of ps.add
// CHECK-NEXT: 1 {{.*}}all_reduce tp evaluate result of ps.embedding
// CHECK-NEXT: 2 {{.*}}all_reduce tp evaluate result of ps.contract
// CHECK-NEXT: 3 {{.*}}all_reduce tp evaluate inside ps.cross_entropy
// CHECK-NEXT: 2 {{.*}}all_reduce dp evaluate result of ps.reduce
// CHECK-NOT:  tp
// CHECK:      all_reduce dp update gradient read

// A gradient is partial over exactly the axes that split activations but not its parameter.
// Optimizer state has the sharding of its parameter.
// MARKS-DAG: gradient @wte.weight.grad {{.*}}[{"tp"}, {}], partial = {"dp": sum}>
// MARKS-DAG: gradient @h.0.attn.out.weight.grad {{.*}}[{}, {"tp"}], partial = {"dp": sum}>
// MARKS-DAG: gradient @h.0.ln_1.weight.grad {{.*}}[{}], partial = {"dp": sum}>
// MARKS-DAG: accumulator @loss.sum {{.*}}[], partial = {"dp": sum}>
// MARKS-DAG: optimizer @h.0.mlp.up.weight.adamw.mean {{.*}}[{"tp"}, {}]>

// Twin: on one rank, there is no split and no communication.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-optimizer="optimizer=adamw(lr=0.001)" --ps-set-mesh=mesh=dp=1 --ps-seed-shardings=policy=megatron --ps-propagate-shardings --ps-verify-planned --ps-explain-shardings -o %t.one
// RUN: ps-opt %t.one --ps-find-segments --ps-partition --ps-explain-collectives -o /dev/null | FileCheck %s --check-prefix=ONE
// RUN: FileCheck %s --check-prefix=WHOLE < %t.one
// ONE: collectives
// ONE-NEXT: none
// WHOLE-NOT: {"dp"
