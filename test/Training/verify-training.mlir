// RUN: ps-opt %s -split-input-file -ps-verify-training -verify-diagnostics

// expected-error @below {{(training_c1) is not at level training; run ps-autodiff first}}
module attributes {ps.level = #ps.level<imported>} {
}

// -----

module attributes {ps.level = #ps.level<training>} {
  func.func @micro_batch(%x: tensor<f32>) {
    // expected-error @below {{(training_c3) has no phase; every op of @micro_batch needs ps.phase}}
    %y = ps.neg %x : tensor<f32>
    return
  }
}

// -----

module attributes {ps.level = #ps.level<training>} {
  func.func @micro_batch(%x: tensor<f32>) {
    %y = ps.neg %x {ps.phase = #ps.phase<backward_weight>} : tensor<f32>
    // expected-error @below {{(module_c4) of phase backward_input reads a value of phase backward_weight}}
    %z = ps.neg %y {ps.phase = #ps.phase<backward_input>} : tensor<f32>
    return
  }
}

// -----

module attributes {ps.level = #ps.level<training>} {
  ps.variable parameter @w : tensor<f32>
  // expected-error @below {{(training_c5) is a gradient that @micro_batch does not accumulate}}
  ps.variable gradient @w.grad of @w : tensor<f32>
  func.func @micro_batch() {
    return
  }
  func.func @evaluate() {
    return
  }
  func.func @update() {
    return
  }
}

// -----

module attributes {ps.level = #ps.level<training>} {
  ps.variable buffer @b : tensor<f32>
  func.func @count(%x: tensor<f32>) {
    // expected-error @below {{(training_c4) is not allowed in @count, which must not write variables}}
    ps.write @b, %x {ps.phase = #ps.phase<forward>} : tensor<f32>
    return
  }
}

// -----

// expected-error @below {{(training_c2) has no function @evaluate}}
module attributes {ps.level = #ps.level<training>} {
  func.func @micro_batch() {
    return
  }
}

// -----

module attributes {ps.level = #ps.level<training>} {
  func.func @micro_batch(%x: tensor<f32>) {
    // expected-error @below {{(module_c4) has phase update in @micro_batch}}
    %y = ps.neg %x {ps.phase = #ps.phase<update>} : tensor<f32>
    return
  }
}
