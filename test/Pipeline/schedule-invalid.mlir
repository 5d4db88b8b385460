// RUN: not ps-opt %s -ps-schedule=micro-batches=0 2>&1 | FileCheck %s

// CHECK: error: a step has 0 micro-batches; give at least 1
module {
}
