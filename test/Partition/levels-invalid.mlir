// A pass that creates a level rejects a module that is not at the level before.
// RUN: not ps-opt %s -ps-partition 2>&1 | FileCheck %s --check-prefix=PARTITION
// PARTITION: error: ps-partition takes a module at level planned, but this module is at level training
// RUN: not ps-opt %s -ps-schedule 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: error: ps-schedule takes a module at level partitioned, but this module is at level training
// RUN: not ps-opt %s -ps-plan-memory 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: ps-plan-memory takes a module at level scheduled, but this module is at level training
// RUN: not ps-opt %s -ps-autodiff 2>&1 | FileCheck %s --check-prefix=AUTODIFF
// AUTODIFF: error: ps-autodiff takes a module at level imported, but this module is at level training
// RUN: ps-opt %s -ps-propagate-shardings -ps-partition -ps-schedule -ps-plan-memory | FileCheck %s
// CHECK: ps.level = #ps.level<placed>
module attributes {ps.level = #ps.level<training>} {
  ps.mesh @mesh <"dp" = 1 : data>
}
