// RUN: ps-opt -ps-plan-memory="slots=3" %s | FileCheck %s

// Three slots of 128 bytes follow the shared region. %x and %saved stay alive for the second
// section.
// CHECK: module attributes {ps.arena_bytes = 576 : i64
module {
  func.func @forward(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) attributes {ps.class = "forward"} {
    %0 = ps.exp %x : tensor<16xf32>
    %1 = ps.log %x : tensor<16xf32>
    return %0, %1 : tensor<16xf32>, tensor<16xf32>
  }
  func.func @backward(%x: tensor<16xf32>, %saved: tensor<16xf32>, %g: tensor<16xf32>) -> tensor<16xf32> attributes {ps.class = "backward"} {
    %0 = ps.mul %x, %saved : tensor<16xf32>
    %1 = ps.mul %0, %g : tensor<16xf32>
    return %1 : tensor<16xf32>
  }

  // The host reads the output after forward and before it writes the cotangent.
  // CHECK-LABEL: rank.program @apart
  // CHECK-SAME: ps.slot_base = 192 : i64, ps.slot_bytes = 128 : i64, ps.slots = 3 : i64
  // CHECK: rank.input "x" {{.*}}ps.addresses = array<i64: 192>
  // CHECK: rank.run @forward{{.*}}ps.addresses = array<i64: 0, 256>
  // CHECK: rank.input "g" {{.*}}ps.addresses = array<i64: 64>
  // CHECK: rank.run @backward
  rank.program @apart pp = 0 entry "forward" {
    %x = rank.input "x" micro_batch 0 : tensor<16xf32>
    %y, %saved = rank.run @forward (%x) : (tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
    rank.output "y" micro_batch 0 %y : tensor<16xf32>
    rank.section "backward"
    %g = rank.input "g" micro_batch 0 : tensor<16xf32>
    %gx = rank.run @backward (%x, %saved, %g) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.output "gx" micro_batch 0 %gx : tensor<16xf32>
  }

  // Twin: a program without sections has no slots and uses only the shared region.
  // CHECK-LABEL: rank.program @whole
  // CHECK-NOT: ps.slot
  rank.program @whole pp = 0 entry "step" {
    %x = rank.input "x" micro_batch 0 : tensor<16xf32>
    %y, %saved = rank.run @forward (%x) : (tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
    rank.output "y" micro_batch 0 %y : tensor<16xf32>
  }
}
