// RUN: ps-opt -ps-plan-memory %s -o %t
// RUN: ps-opt -ps-verify-placed %t | FileCheck %s
// RUN: not ps-opt -ps-verify-placed %s 2>&1 | FileCheck %s --check-prefix=UNPLANNED
// RUN: sed 's/ps.address = 192/ps.address = 128/' %t | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=SHARED
// RUN: sed 's/ps.address = 192/ps.address = 100/' %t | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=UNALIGNED
// RUN: sed 's/ps.address = 192/ps.address = 1048576/' %t | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: sed 's/ps.address = 192/ps.other = 192/' %t | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: sed 's/ps.offsets = array<i64: 64>/ps.offsets = array<i64: 0>/' %t | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=SCRATCH
// RUN: sed 's/ps.offsets = array<i64: 64>/ps.offsets = array<i64: 128>/' %t | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=BEYOND
// RUN: sed 's/ps.scratch_bytes = 128 : i64/ps.scratch_bytes = "a"/' %t | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=BYTES
// RUN: sed 's/ps.scratch_address = [0-9]*/ps.scratch_address = 0/' %t | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=VARIABLES
// RUN: sed 's/ps.addresses = array<i64: [0-9]*>/ps.addresses = array<i64: 256>/' %t | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=VALUES
// RUN: ps-opt -ps-plan-memory=slots=3 %S/plan-memory-sections.mlir | ps-opt -ps-verify-placed | FileCheck %s
// RUN: ps-opt -ps-plan-memory=slots=3 %S/plan-memory-sections.mlir | sed 's/ps.slots = 3/ps.slots = 4/' | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=SLOTS
// RUN: ps-opt -ps-plan-memory=slots=3 %S/plan-memory-sections.mlir | sed 's/ps.slot_base = 192/ps.slot_base = 128/' | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=REACHES

// The verifier accepts the memory plan of the planner and rejects each edit of the plan.
// CHECK: ps.arena_bytes
// UNPLANNED: lacks ps.arena_bytes; run ps-plan-memory
// SHARED: (placed_c1) uses bytes 128 to 192 while another buffer uses some of them
// UNALIGNED: (placed_c1) has address 100 and 64 bytes; expected a multiple of 64
// OUTSIDE: (placed_c1) has address 1048576
// NOWHERE: (placed_c1) has no address; run ps-plan-memory
// SCRATCH: (placed_c2) uses bytes 0 to 64 while another buffer uses some of them
// BEYOND: (placed_c2) has address 128 and 64 bytes; expected a multiple of 64 in bytes 0 to 128
// BYTES: (placed_c2) lacks ps.scratch_bytes
// VARIABLES: (placed_c3) has address 0
// VALUES: (placed_c3) uses bytes 256 to 320 while another buffer uses some of them
// SLOTS: (placed_c4) keeps values for later sections, but has no slots for them in the arena
// REACHES: (placed_c4) overlaps the slots, which begin at byte 128
module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  ps.variable parameter @a {ps.sharding = #ps.sharding<@mesh, [{"tp"}]>} : tensor<50xf32>
  ps.variable parameter @b {ps.sharding = #ps.sharding<@mesh, []>} : tensor<f32>
  ps.variable parameter @c {ps.sharding = #ps.sharding<@mesh, [{}]>} : tensor<16xf32>

  func.func @chain(%x: tensor<16xf32>) -> tensor<16xf32> attributes {ps.class = "chain"} {
    %0 = ps.exp %x : tensor<16xf32>
    %1 = ps.log %0 : tensor<16xf32>
    %2 = ps.neg %1 : tensor<16xf32>
    %3 = ps.abs %2 : tensor<16xf32>
    return %3 : tensor<16xf32>
  }

  func.func @kept(%x: tensor<16xf32>) -> tensor<16xf32> attributes {ps.class = "kept"} {
    %0 = ps.exp %x : tensor<16xf32>
    %1 = ps.log %0 : tensor<16xf32>
    %2 = ps.neg %1 : tensor<16xf32>
    %3 = ps.add %2, %0 : tensor<16xf32>
    return %3 : tensor<16xf32>
  }

  rank.program @p pp = 0 entry "evaluate" {
    %x = rank.input "x" micro_batch 0 : tensor<16xf32>
    %y = rank.run @chain (%x) : (tensor<16xf32>) -> tensor<16xf32>
    %z = rank.run @kept (%y) : (tensor<16xf32>) -> tensor<16xf32>
    rank.output "z" micro_batch 0 %z : tensor<16xf32>
  }
}
