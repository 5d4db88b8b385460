// RUN: ps-opt %s --ps-set-initial-values='init="*.bias=zeros;*.ln.*=ones;normal(0.02)"' --split-input-file | FileCheck %s
// RUN: not ps-opt %s --ps-set-initial-values='init="*.bias=zeros"' --split-input-file 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not ps-opt %s --ps-set-initial-values='init="normal[0.02]"' --split-input-file 2>&1 | FileCheck %s --check-prefix=BAD

// MISSING: error: parameter 'a.weight' has no values in the model's file; give it some with --init
// BAD: error: --init "normal[0.02]": expected [GLOB=]normal(std)

// CHECK: ps.variable parameter @a.weight {{.*}}init #ps.distribution<normal, 0.000000e+00, 2.000000e-02>
// CHECK: ps.variable parameter @a.bias {{.*}}init #ps.distribution<value, 0.000000e+00, 0.000000e+00>
// CHECK: ps.variable parameter @a.ln.weight {{.*}}init #ps.distribution<value, 1.000000e+00, 0.000000e+00>
ps.variable parameter @a.weight names ["a.weight"] : tensor<4x4xf32>
ps.variable parameter @a.bias names ["a.bias"] : tensor<4xf32>
ps.variable parameter @a.ln.weight names ["a.ln.weight"] : tensor<4xf32>

// -----

// The twin: one that has values keeps them, and buffers are left alone.
// CHECK: ps.variable parameter @kept init dense<2.000000e+00>
// CHECK: ps.variable buffer @buffer : tensor<4xf32>
ps.variable parameter @kept init dense<2.0> : tensor<4xf32>
ps.variable buffer @buffer : tensor<4xf32>
