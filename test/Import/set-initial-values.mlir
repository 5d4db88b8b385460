// RUN: ps-opt %s --ps-set-initial-values='init="*.bias=zeros;*.ln.*=ones;normal(0.02)"' | FileCheck %s
// RUN: not ps-opt %s --ps-set-initial-values='init="*.bias=zeros"' 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not ps-opt %s --ps-set-initial-values='init="normal[0.02]"' 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not ps-opt %s --ps-set-initial-values='init="b.*=zeros;normal(0.02)"' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: ps-opt %s --ps-set-initial-values='init="kept=ones;normal(0.02)"' 2>&1 | FileCheck %s --check-prefix=IDLE
// RUN: ps-opt %s --ps-set-initial-values='init="kept=ones" given=true' 2>&1 | FileCheck %s --check-prefix=GIVEN

// MISSING: error: parameter 'a.weight' has no values in the model's file; give it some with --init
// BAD: error: --init "normal[0.02]": expected [GLOB=]normal(std)
// NOTHING: error: --init "b.*=zeros": matches no parameter; the nearest names are 'a.weight', 'a.bias' and
// IDLE: warning: --init "kept=ones" has no effect: all parameters that it matches have values in the model's file

// CHECK: ps.variable parameter @a.weight {{.*}}init #ps.distribution<normal, 0.000000e+00, 2.000000e-02>
// CHECK: ps.variable parameter @a.bias {{.*}}init #ps.distribution<value, 0.000000e+00, 0.000000e+00>
// CHECK: ps.variable parameter @a.ln.weight {{.*}}init #ps.distribution<value, 1.000000e+00, 0.000000e+00>
// If the weights are provided at run time (given=true), no parameter needs a rule, and rules apply
// to all parameters.
// GIVEN-NOT: warning
// GIVEN: ps.variable parameter @a.weight names ["a.weight"] :
ps.variable parameter @a.weight names ["a.weight"] : tensor<4x4xf32>
ps.variable parameter @a.bias names ["a.bias"] : tensor<4xf32>
ps.variable parameter @a.ln.weight names ["a.ln.weight"] : tensor<4xf32>

// Twin: a parameter with values keeps them, and buffers are unchanged.
// CHECK: ps.variable parameter @kept init dense<2.000000e+00>
// GIVEN: ps.variable parameter @kept init #ps.distribution<value, 1.000000e+00
// CHECK: ps.variable buffer @buffer : tensor<4xf32>
ps.variable parameter @kept init dense<2.0> : tensor<4xf32>
ps.variable buffer @buffer : tensor<4xf32>
