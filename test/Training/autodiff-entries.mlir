// RUN: ps-opt %s -split-input-file -ps-autodiff=inference -ps-verify-training -verify-diagnostics | FileCheck %s

// An inference entry runs in evaluation mode, and keeps its writes of buffers.
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT:     ps.write
// CHECK-LABEL: func.func @decode
// CHECK-SAME:    ps.entry
// CHECK:         ps.dropout {{.*}}phase<evaluate>{{.*}}training = false
// CHECK:         ps.write @cache, {{.*}}phase<evaluate>
module attributes {ps.level = #ps.level<imported>} {
  ps.variable buffer @cache : tensor<4xf32>
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    ps.write @cache, %x : tensor<4xf32>
    return %x : tensor<4xf32>
  }
  func.func @decode(%x: tensor<4xf32>) -> (tensor<4xf32> {ps.name = "y"}) attributes {ps.entry} {
    %0 = ps.dropout %x p 0.5 : tensor<4xf32>
    %1 = ps.read @cache : tensor<4xf32>
    %2 = ps.add %0, %1 : tensor<4xf32>
    ps.write @cache, %2 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

// The batch sizes of entries are independent.
// CHECK-LABEL: func.func @decode(
module attributes {ps.level = #ps.level<imported>} {
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  func.func @decode(%x: tensor<2xf32>) -> tensor<2xf32> attributes {ps.entry} {
    return %x : tensor<2xf32>
  }
}

// -----

module attributes {ps.level = #ps.level<imported>} {
  ps.variable parameter @w names ["net.w"] : tensor<4xf32>
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  func.func @decode(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.entry} {
    // expected-error @below {{the entry @decode writes 'net.w', which is not a buffer; an entry may only write buffers}}
    ps.write @w, %x : tensor<4xf32>
    return %x : tensor<4xf32>
  }
}

// -----

module attributes {ps.level = #ps.level<imported>} {
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  func.func @decode(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.entry} {
    // expected-error @below {{the entry @decode was exported in train mode; call model.eval() before its export}}
    %0 = ps.by_mode %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
