// RUN: ps-opt %s -ps-plan-memory -ps-verify-placed | FileCheck %s
// RUN: ps-opt %s -ps-plan-memory | sed 's/ps.address = array<i64: 0, -1>/ps.address = array<i64: -1, 0>/' | not ps-opt -ps-verify-placed 2>&1 | FileCheck %s --check-prefix=HELD

// The arena of each pipeline coordinate holds the variables that its programs name. @a is on the
// first coordinate, @b on the second, @t on both, and @n, which no program names, on the first. A
// sent value stays alive until the wait and does not overlap values received before it.
// CHECK: module attributes {ps.arena_bytes = array<i64: 512, 320>
// CHECK: ps.variable parameter @a {ps.address = array<i64: 0, -1>}
// CHECK: ps.variable parameter @b {ps.address = array<i64: -1, 0>}
// CHECK: ps.variable parameter @t {ps.address = array<i64: 64, 64>}
// CHECK: ps.variable parameter @n {ps.address = array<i64: 128, -1>}
// CHECK-LABEL: rank.program @pp0
// CHECK: rank.input {{.*}}ps.addresses = array<i64: 192>
// CHECK: rank.run {{.*}}ps.addresses = array<i64: 256>
// CHECK: rank.recv {{.*}}ps.addresses = array<i64: 320, -1>
// CHECK: rank.run {{.*}}ps.addresses = array<i64: 384>
// CHECK-LABEL: rank.program @pp1
// CHECK: rank.recv {{.*}}ps.addresses = array<i64: 128, -1>
// HELD: (placed_c5) uses "a", which has no address on pipeline coordinate 0
module attributes {ps.level = #ps.level<scheduled>} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  ps.variable parameter @a : tensor<16xf32>
  ps.variable parameter @b : tensor<16xf32>
  ps.variable parameter @t : tensor<16xf32>
  ps.variable parameter @n : tensor<16xf32>
  func.func @h.forward(%x: tensor<16xf32>, %w: !ps.ref<tensor<16xf32>>, %t: !ps.ref<tensor<16xf32>>) -> tensor<16xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    %0 = ps.read %w : !ps.ref<tensor<16xf32>>
    %1 = ps.read %t : !ps.ref<tensor<16xf32>>
    %2 = ps.mul %x, %0 : tensor<16xf32>
    %3 = ps.mul %2, %1 : tensor<16xf32>
    return %3 : tensor<16xf32>
  }
  rank.program @pp0 pp = 0 entry "step" {
    %x = rank.input "x" micro_batch 0 : tensor<16xf32>
    %0 = rank.run @h.forward segment 0(%x) variables [@a, @t] : (tensor<16xf32>) -> tensor<16xf32>
    %t = rank.send %0 to pp 1 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<16xf32>
    %y, %u = rank.recv from pp 1 queue "grad.1-0" message (value = 1, micro_batch = 0) : tensor<16xf32>
    %1 = rank.run @h.forward segment 0(%x) variables [@a, @t] : (tensor<16xf32>) -> tensor<16xf32>
    rank.wait %t
    rank.wait %u
    rank.output "y" micro_batch 0 %y : tensor<16xf32>
    rank.output "z" micro_batch 0 %1 : tensor<16xf32>
  }
  rank.program @pp1 pp = 1 entry "step" {
    %x, %t = rank.recv from pp 0 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<16xf32>
    rank.wait %t
    %0 = rank.run @h.forward segment 1(%x) variables [@b, @t] : (tensor<16xf32>) -> tensor<16xf32>
    %u = rank.send %0 to pp 0 queue "grad.1-0" message (value = 1, micro_batch = 0) : tensor<16xf32>
    rank.wait %u
  }
}
