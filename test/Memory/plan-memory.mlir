// RUN: ps-opt -ps-plan-memory %s | FileCheck %s

// CHECK: module attributes {ps.arena_bytes = [[ARENA:[0-9]+]] : i64, ps.level = #ps.level<placed>}
module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  // A variable takes the bytes of its local shard, rounded up to 64.
  // CHECK: @a {{.*}}ps.address = 0 : i64
  // CHECK: @b {{.*}}ps.address = 128 : i64
  // CHECK: @c {{.*}}ps.address = 192 : i64
  ps.variable parameter @a {ps.sharding = #ps.sharding<@mesh, [{"tp"}]>} : tensor<50xf32>
  ps.variable parameter @b {ps.sharding = #ps.sharding<@mesh, []>} : tensor<f32>
  ps.variable parameter @c {ps.sharding = #ps.sharding<@mesh, [{}]>} : tensor<16xf32>

  // Values alive at the same time do not overlap. The third value reuses the bytes of the first
  // value, which is dead by then.
  // CHECK-LABEL: func.func @chain
  // CHECK-SAME: ps.scratch_bytes = 128 : i64
  // CHECK: ps.exp {{.*}}ps.offsets = array<i64: 0>
  // CHECK: ps.log {{.*}}ps.offsets = array<i64: 64>
  // CHECK: ps.neg {{.*}}ps.offsets = array<i64: 0>
  // CHECK: ps.abs %{{[0-9a-z]+}} : tensor<16xf32>
  func.func @chain(%x: tensor<16xf32>) -> tensor<16xf32> attributes {ps.class = "chain"} {
    %0 = ps.exp %x : tensor<16xf32>
    %1 = ps.log %0 : tensor<16xf32>
    %2 = ps.neg %1 : tensor<16xf32>
    %3 = ps.abs %2 : tensor<16xf32>
    return %3 : tensor<16xf32>
  }

  // Twin: a value used again at the end stays alive, so its bytes are not reused.
  // CHECK-LABEL: func.func @kept
  // CHECK-SAME: ps.scratch_bytes = 192 : i64
  // CHECK: ps.neg {{.*}}ps.offsets = array<i64: 128>
  func.func @kept(%x: tensor<16xf32>) -> tensor<16xf32> attributes {ps.class = "kept"} {
    %0 = ps.exp %x : tensor<16xf32>
    %1 = ps.log %0 : tensor<16xf32>
    %2 = ps.neg %1 : tensor<16xf32>
    %3 = ps.add %2, %0 : tensor<16xf32>
    return %3 : tensor<16xf32>
  }

  // An output stays alive to the end of the program, scratch memory only during its run.
  // CHECK-LABEL: rank.program @p
  // CHECK: rank.input "x" {{.*}}ps.addresses = array<i64: [[X:[0-9]+]]>
  // CHECK: rank.run @chain{{.*}}ps.scratch_address = [[S:[0-9]+]]
  // CHECK: rank.run @kept
  rank.program @p pp = 0 entry "evaluate" {
    %x = rank.input "x" micro_batch 0 : tensor<16xf32>
    %y = rank.run @chain (%x) : (tensor<16xf32>) -> tensor<16xf32>
    %z = rank.run @kept (%y) : (tensor<16xf32>) -> tensor<16xf32>
    rank.output "z" micro_batch 0 %z : tensor<16xf32>
  }
}
