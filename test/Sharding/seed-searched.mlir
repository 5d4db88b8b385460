// The policy searched finds splits by their predicted time, without knowledge of patterns.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh="mesh=tp=2 cluster=%S/../clusters/fast-network.json" --ps-seed-shardings=policy=searched+memory --ps-propagate-shardings | FileCheck %s
// CHECK: @h.0.mlp.up.weight {{.*}}"searched: dim 0 of h.*.mlp.up.weight: {{[0-9.]+}} % faster"{{.*}}[{"tp"}, {}]
// CHECK: @h.0.mlp.down.weight {{.*}}[{}, {"tp"}]

// Twins: on a slow network, no split is faster. Without a tensor axis, nothing is searched.
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh="mesh=tp=2 cluster=cpu-mpi" --ps-seed-shardings=policy=searched 2>&1 | FileCheck %s --check-prefix=SLOW
// RUN: ps-opt %S/inputs/gpt.mlir --ps-autodiff --ps-set-mesh=mesh=dp=2 --ps-seed-shardings=policy=searched 2>&1 | FileCheck %s --check-prefix=NONE
// SLOW: remark: --sharding-policy searched: no split over the tensor axes is predicted to be faster
// SLOW-NOT: "searched:
// NONE-NOT: remark
// NONE-NOT: "searched:
