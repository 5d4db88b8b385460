// RUN: ps-opt %s -split-input-file "-ps-offload=what=activations=all" -ps-verify-scheduled 2>&1 | FileCheck %s
// RUN: sed "s|ps.level = #ps.level<scheduled>|&, ps.cluster = \"%S/inputs/fast-host.json\"|" %s | ps-opt -split-input-file -ps-offload=what=activations -ps-verify-scheduled 2>&1 | FileCheck %s
// RUN: sed "s|ps.level = #ps.level<scheduled>|&, ps.cluster = \"%S/inputs/slow-host.json\"|" %s | ps-opt -split-input-file -ps-offload=what=activations 2>&1 | FileCheck %s --check-prefix=SLOW

// Three layers. The saved value of the first layer is copied to the host while the second layer
// runs, and back during the backward of the second. Backward needs the value of the last layer
// immediately, so that value stays on the device.
// SLOW: --offload activations changes nothing
// SLOW-NOT: rank.stash
module attributes {ps.level = #ps.level<scheduled>} {
  func.func @h.forward(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<64xf32>) attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 1 : i64} {
    %s = ps.constant dense<0.0> : tensor<64xf32>
    %y = ps.add %x, %x : tensor<16xf32>
    return %y, %s : tensor<16xf32>, tensor<64xf32>
  }
  func.func @h.backward(%s: tensor<64xf32>, %d: tensor<16xf32>) -> tensor<16xf32> attributes {ps.class = "h", ps.phase = #ps.phase<backward_input>} {
    %y = ps.add %d, %d : tensor<16xf32>
    return %y : tensor<16xf32>
  }
  // CHECK-LABEL: rank.program @pp0
  // CHECK: %[[F0:.*]]:2 = rank.run @h.forward segment 0
  // CHECK-NEXT: %[[HELD:.*]], %[[T0:.*]] = rank.stash %[[F0]]#1
  // CHECK-NEXT: %[[F1:.*]]:2 = rank.run @h.forward segment 1
  // CHECK-NEXT: rank.wait %[[T0]]
  // CHECK-NEXT: %[[F2:.*]]:2 = rank.run @h.forward segment 2
  // CHECK-NEXT: %[[B2:.*]] = rank.run @h.backward segment 2(%[[F2]]#1
  // CHECK-NEXT: %[[BACK:.*]], %[[T1:.*]] = rank.unstash %[[HELD]]
  // CHECK-NEXT: %[[B1:.*]] = rank.run @h.backward segment 1(%[[F1]]#1
  // CHECK-NEXT: rank.wait %[[T1]]
  // CHECK-NEXT: rank.run @h.backward segment 0(%[[BACK]],
  rank.program @pp0 pp = 0 entry "step" {
    %x = rank.input "x" micro_batch 0 : tensor<16xf32>
    %0:2 = rank.run @h.forward segment 0 (%x) : (tensor<16xf32>) -> (tensor<16xf32>, tensor<64xf32>)
    %1:2 = rank.run @h.forward segment 1 (%0#0) : (tensor<16xf32>) -> (tensor<16xf32>, tensor<64xf32>)
    %2:2 = rank.run @h.forward segment 2 (%1#0) : (tensor<16xf32>) -> (tensor<16xf32>, tensor<64xf32>)
    %3 = rank.run @h.backward segment 2 (%2#1, %2#0) : (tensor<64xf32>, tensor<16xf32>) -> tensor<16xf32>
    %4 = rank.run @h.backward segment 1 (%1#1, %3) : (tensor<64xf32>, tensor<16xf32>) -> tensor<16xf32>
    %5 = rank.run @h.backward segment 0 (%0#1, %4) : (tensor<64xf32>, tensor<16xf32>) -> tensor<16xf32>
    rank.output "d" micro_batch 0 %5 : tensor<16xf32>
  }
}

// -----

// Twin: values that only forward uses, and outputs, stay on the device.
// SLOW: --offload activations changes nothing
module attributes {ps.level = #ps.level<scheduled>} {
  func.func @h.forward(%x: tensor<16xf32>) -> tensor<16xf32> attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    %y = ps.add %x, %x : tensor<16xf32>
    return %y : tensor<16xf32>
  }
  // CHECK-LABEL: rank.program @evaluate
  // CHECK-NOT: rank.stash
  rank.program @evaluate pp = 0 entry "step" {
    %x = rank.input "x" micro_batch 0 : tensor<16xf32>
    %0 = rank.run @h.forward segment 0 (%x) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = rank.run @h.forward segment 1 (%0) : (tensor<16xf32>) -> tensor<16xf32>
    %2 = rank.run @h.forward segment 2 (%0) : (tensor<16xf32>) -> tensor<16xf32>
    rank.output "x" micro_batch 0 %0 : tensor<16xf32>
    rank.output "y" micro_batch 0 %1 : tensor<16xf32>
    rank.output "z" micro_batch 0 %2 : tensor<16xf32>
  }
}
