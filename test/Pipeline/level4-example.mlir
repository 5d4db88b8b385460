// RUN: ps-opt %S/inputs/level4-example.mlir -ps-verify-scheduled | ps-opt | FileCheck %s

// The hand-written level-4 module parses, prints and parses again.
// CHECK: rank.program @pp0 pp = 0 entry "step"
// CHECK-COUNT-2: rank.run @h.forward segment 0
// CHECK: rank.start "all_reduce"
