// ps-run compares the results and variables of a run with those of another run.
// RUN: ps-run %s --entry first --outputs %t.safetensors
// RUN: ps-run %s --entry first --compare %t.safetensors | FileCheck %s --check-prefix=EQUAL
// EQUAL: 3 tensors are equal
// RUN: ps-run %s --entry near --compare %t.safetensors --tolerance 1e-2 | FileCheck %s --check-prefix=NEAR
// NEAR: 3 tensors agree; the largest difference is in y: 6.2e-03 relative to max(0.001, its largest absolute element)

// Twin: without a tolerance, with a smaller tolerance, or with another integer, the tensors differ.
// RUN: not ps-run %s --entry near --compare %t.safetensors 2>&1 | FileCheck %s --check-prefix=FAR
// RUN: not ps-run %s --entry near --compare %t.safetensors --tolerance 1e-3 2>&1 | FileCheck %s --check-prefix=FAR
// FAR: error: {{.*}}.safetensors: y differs by 6.2e-03 relative to max(0.001, its largest absolute element); --tolerance allows
// RUN: not ps-run %s --entry count --compare %t.safetensors --tolerance 1e-2 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: n differs by 1.0e+00 relative to max(0.001, its largest absolute element)

// NaN agrees only with NaN.
// RUN: not ps-run %s --entry nan --compare %t.safetensors --tolerance 1e9 2>&1 | FileCheck %s --check-prefix=NAN
// NAN: y has a NaN or infinity that differs between the two runs
// RUN: ps-run %s --entry nan --outputs %t.nan.safetensors --compare %t.nan.safetensors --tolerance 0 | FileCheck %s --check-prefix=EQUAL

// Every name and type must be the same.
// RUN: not ps-run %s --entry less --compare %t.safetensors 2>&1 | FileCheck %s --check-prefix=LESS
// LESS: the module has no result or variable n
// RUN: not ps-run %s --entry more --compare %t.safetensors 2>&1 | FileCheck %s --check-prefix=MORE
// MORE: the file has no tensor z
// RUN: not ps-run %s --entry shape --compare %t.safetensors 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: y has type tensor<1xf32>, but tensor<2xf32> in the file

// RUN: not ps-run %s --entry first --tolerance 0.1 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: ps-run: error: --tolerance needs --compare
// RUN: not ps-run %s --entry first --compare %t.safetensors --tolerance=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: ps-run: error: --tolerance must not be negative
// RUN: not ps-run %s --entry first --compare %t.none 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: {{.*}}.none

module {
  ps.variable buffer @w init dense<[1.0, 4.0]> : tensor<2xf32>
  func.func @first() -> (tensor<2xf32> {ps.name = "y"}, tensor<i64> {ps.name = "n"}) {
    %y = ps.constant dense<[1.0, -4.0]> : tensor<2xf32>
    %n = ps.constant dense<1> : tensor<i64>
    return %y, %n : tensor<2xf32>, tensor<i64>
  }
  func.func @near() -> (tensor<2xf32> {ps.name = "y"}, tensor<i64> {ps.name = "n"}) {
    %y = ps.constant dense<[1.025, -4.0]> : tensor<2xf32>
    %n = ps.constant dense<1> : tensor<i64>
    return %y, %n : tensor<2xf32>, tensor<i64>
  }
  func.func @count() -> (tensor<2xf32> {ps.name = "y"}, tensor<i64> {ps.name = "n"}) {
    %y = ps.constant dense<[1.0, -4.0]> : tensor<2xf32>
    %n = ps.constant dense<2> : tensor<i64>
    return %y, %n : tensor<2xf32>, tensor<i64>
  }
  func.func @nan() -> (tensor<2xf32> {ps.name = "y"}, tensor<i64> {ps.name = "n"}) {
    %y = ps.constant dense<[1.0, 0x7FC00000]> : tensor<2xf32>
    %n = ps.constant dense<1> : tensor<i64>
    return %y, %n : tensor<2xf32>, tensor<i64>
  }
  func.func @less() -> (tensor<2xf32> {ps.name = "y"}) {
    %y = ps.constant dense<[1.0, -4.0]> : tensor<2xf32>
    return %y : tensor<2xf32>
  }
  func.func @more() -> (tensor<2xf32> {ps.name = "y"}, tensor<i64> {ps.name = "n"}, tensor<i64> {ps.name = "z"}) {
    %y = ps.constant dense<[1.0, -4.0]> : tensor<2xf32>
    %n = ps.constant dense<1> : tensor<i64>
    return %y, %n, %n : tensor<2xf32>, tensor<i64>, tensor<i64>
  }
  func.func @shape() -> (tensor<1xf32> {ps.name = "y"}, tensor<i64> {ps.name = "n"}) {
    %y = ps.constant dense<[1.0]> : tensor<1xf32>
    %n = ps.constant dense<1> : tensor<i64>
    return %y, %n : tensor<1xf32>, tensor<i64>
  }
}
