// ZeRO stages 1, 2 and 3 split optimizer state, gradients and parameters over the data axis.
// RUN: ps-opt %s --ps-propagate-shardings=zero=0 --ps-verify-planned | FileCheck %s --check-prefixes=ALL,ZERO
// RUN: ps-opt %s --ps-propagate-shardings=zero=1 --ps-verify-planned | FileCheck %s --check-prefixes=ALL,ONE
// RUN: ps-opt %s --ps-propagate-shardings=zero=2 --ps-verify-planned | FileCheck %s --check-prefixes=ALL,TWO
// RUN: ps-opt %s --ps-propagate-shardings=zero=3 --ps-verify-planned | FileCheck %s --check-prefixes=ALL,THREE

ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>

// ZeRO splits the outermost dim that the axis divides evenly.
// ZERO: parameter @w {{.*}}[{"tp"}, {}]
// ONE: parameter @w {{.*}}[{"tp"}, {}]
// TWO: parameter @w {{.*}}[{"tp"}, {}]
// THREE: parameter @w {{.*}}[{"tp", "dp"}, {}]
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"tp"}, {}]>} : tensor<8x16xf32>
// ZERO: gradient @w.grad {{.*}}[{"tp"}, {}], partial = {"dp": sum}
// ONE: gradient @w.grad {{.*}}[{"tp"}, {}], partial = {"dp": sum}
// TWO: gradient @w.grad {{.*}}[{"tp", "dp"}, {}]>
// THREE: gradient @w.grad {{.*}}[{"tp", "dp"}, {}]>
ps.variable gradient @w.grad of @w : tensor<8x16xf32>
// ZERO: optimizer @w.m {{.*}}[{"tp"}, {}]
// ONE: optimizer @w.m {{.*}}[{"tp", "dp"}, {}]
// TWO: optimizer @w.m {{.*}}[{"tp", "dp"}, {}]
// THREE: optimizer @w.m {{.*}}[{"tp", "dp"}, {}]
ps.variable optimizer @w.m of @w : tensor<8x16xf32>

// A dim that the axis does not divide is padded. If a model axis splits this dim, ZeRO splits
// another dim instead.
// THREE: parameter @odd {{.*}}[{"tp"}, {"dp"}]
ps.variable parameter @odd {ps.sharding = #ps.sharding<@mesh, [{"tp"}, {}]>} : tensor<7x5xf32>
// THREE: parameter @padded {{.*}}[{"dp"}]
ps.variable parameter @padded : tensor<5xf32>
// One element cannot be split.
// ALL: parameter @one {{.*}}[{}]
ps.variable parameter @one : tensor<1xf32>
// ALL: optimizer @count {{.*}}[]
ps.variable optimizer @count of @one : tensor<i64>

// Only the update uses the f32 values of a 16-bit copy, so stage 1 splits them. Their average has
// the same sharding.
// ZERO: parameter @f32 {{.*}}[{}]
// ONE: parameter @f32 {{.*}}[{"dp"}]
// TWO: parameter @f32 {{.*}}[{"dp"}]
ps.variable parameter @f32 : tensor<8xf32>
// ZERO: copy @f32.bf16 {{.*}}[{}]
// ONE: copy @f32.bf16 {{.*}}[{}]
// TWO: copy @f32.bf16 {{.*}}[{}]
// THREE: copy @f32.bf16 {{.*}}[{"dp"}]
ps.variable copy @f32.bf16 of @f32 : tensor<8xbf16>
// ZERO: average @f32.average {{.*}}[{}]
// ONE: average @f32.average {{.*}}[{"dp"}]
ps.variable average @f32.average of @f32 : tensor<8xf32>
// The model reads `w`, so its average is split in stage 3 only.
// TWO: average @w.average {{.*}}[{"tp"}, {}]
// THREE: average @w.average {{.*}}[{"tp", "dp"}, {}]
ps.variable average @w.average of @w : tensor<8x16xf32>

// From stage 2 on, micro-batches accumulate shards of the gradient. From stage 1 on, each rank
// updates its shard.
// ALL-LABEL: func.func @micro_batch
// ONE: ps.contract {{.*}}partial = {"dp": sum}
// TWO: ps.contract {{.*}}[{"tp", "dp"}, {}]>
func.func @micro_batch(%x: tensor<4x16xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {}]>}, %g: tensor<4x8xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {"tp"}]>}) {
  %0 = ps.contract %g [0, 1], %x [0, 2] -> [1, 2] : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  ps.accumulate @w.grad, %0 : tensor<8x16xf32>
  return
}

// ALL-LABEL: func.func @update
// ZERO: ps.add {{.*}}[{"tp"}, {}]>
// ONE: ps.add {{.*}}[{"tp", "dp"}, {}]>
// TWO: ps.add {{.*}}[{"tp", "dp"}, {}]>
func.func @update() {
  %g = ps.read @w.grad {ps.phase = #ps.phase<update>} : tensor<8x16xf32>
  %m = ps.read @w.m {ps.phase = #ps.phase<update>} : tensor<8x16xf32>
  %0 = ps.add %g, %m {ps.phase = #ps.phase<update>} : tensor<8x16xf32>
  ps.write @w.m, %0 {ps.phase = #ps.phase<update>} : tensor<8x16xf32>
  ps.write @w, %0 {ps.phase = #ps.phase<update>} : tensor<8x16xf32>
  return
}
