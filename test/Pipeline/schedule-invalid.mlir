// RUN: not ps-opt %s -ps-schedule=micro-batches=0 2>&1 | FileCheck %s
// RUN: not ps-opt %s -ps-schedule=micro-batches=9223372036854775807 2>&1 | FileCheck %s --check-prefix=MANY

// CHECK: error: a step has 0 micro-batches; use 1 to 16384
// MANY: error: a step has 9223372036854775807 micro-batches; use 1 to 16384
module {
}
