// RUN: split-file %s %t
// RUN: ps-opt -ps-verify-imported %t/right.mlir | FileCheck %s
// RUN: not ps-opt -ps-verify-imported %t/mesh.mlir 2>&1 | FileCheck %s --check-prefix=C1
// RUN: not ps-opt -ps-verify-imported %t/external.mlir 2>&1 | FileCheck %s --check-prefix=BODY
// RUN: not ps-opt -ps-verify-imported %t/foreign.mlir 2>&1 | FileCheck %s --check-prefix=C2
// RUN: not ps-opt -ps-verify-imported %t/phase.mlir 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not ps-opt -ps-verify-imported %t/location.mlir 2>&1 | FileCheck %s --check-prefix=LOCATION

// CHECK: func.func @forward
// C1: (imported_c1) is neither a function nor a variable
// BODY: (imported_c1) has no body
// C2: (imported_c2) is not an op of the dialect ps
// PHASE: (imported_c2) has a phase, which is only allowed from level training on
// LOCATION: (imported_c3) has no location

//--- right.mlir
ps.variable parameter @w : tensor<4xf32>
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = ps.read @w : tensor<4xf32>
  %y = ps.mul %x, %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
//--- mesh.mlir
ps.mesh @mesh <"tp" = 2 : tensor>
//--- external.mlir
func.func private @forward(tensor<4xf32>)
//--- foreign.mlir
func.func @forward() {
  %0 = arith.constant 1 : i64
  return
}
//--- phase.mlir
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = ps.exp %x {ps.phase = #ps.phase<forward>} : tensor<4xf32>
  return %y : tensor<4xf32>
}
//--- location.mlir
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = ps.exp %x : tensor<4xf32> loc(unknown)
  return %y : tensor<4xf32>
}
