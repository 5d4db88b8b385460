// Parses meshes: axis kinds by name or explicit, `*` for the remaining ranks, and errors.
// RUN: ps-opt %s --ps-set-mesh="mesh=dp=2,tp=4" | FileCheck %s --check-prefix=NAMES
// NAMES: ps.mesh @mesh <"dp" = 2 : data, "tp" = 4 : tensor>
// RUN: ps-opt %s --ps-set-mesh="mesh=rows:data=2,cp=1,ep=3,pp=1" | FileCheck %s --check-prefix=KINDS
// KINDS: ps.mesh @mesh <"rows" = 2 : data, "cp" = 1 : context, "ep" = 3 : expert, "pp" = 1 : pipeline>
// RUN: ps-opt %s --ps-set-mesh="mesh=dp=*,tp=2 ranks=8" | FileCheck %s --check-prefix=FILL
// FILL: ps.mesh @mesh <"dp" = 4 : data, "tp" = 2 : tensor>

// RUN: not ps-opt %s --ps-set-mesh="mesh=dp=2,dp=2" 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: --mesh: mesh axis "dp" is given twice
// RUN: not ps-opt %s --ps-set-mesh="mesh=rows=2" 2>&1 | FileCheck %s --check-prefix=KIND
// KIND: error: --mesh: mesh axis "rows" needs its kind: write rows:data=N
// RUN: not ps-opt %s --ps-set-mesh="mesh=rows:fast=2" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: --mesh: mesh axis "rows" has the unknown kind "fast"; kinds are data, tensor, context, expert, pipeline
// RUN: not ps-opt %s --ps-set-mesh="mesh=dp=0" 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: error: --mesh: mesh axis "dp" has size 0; sizes are 1 or more, or *
// RUN: not ps-opt %s --ps-set-mesh="mesh=dp" 2>&1 | FileCheck %s --check-prefix=FORM
// FORM: error: --mesh: mesh axis "dp" is not NAME=N or NAME:KIND=N
// RUN: not ps-opt %s --ps-set-mesh="mesh=dp=2,tp=2 ranks=8" 2>&1 | FileCheck %s --check-prefix=RANKS
// RANKS: error: --mesh: the axes of mesh dp=2,tp=2 multiply to 4, but --ranks is 8
// RUN: not ps-opt %s --ps-set-mesh="mesh=dp=*,tp=3 ranks=8" 2>&1 | FileCheck %s --check-prefix=DIVIDE
// DIVIDE: error: --mesh: mesh dp=*,tp=3 cannot fill 8 ranks: the other axes have 3 devices
// RUN: not ps-opt %s --ps-set-mesh="mesh=dp=*,tp=2" 2>&1 | FileCheck %s --check-prefix=STAR
// STAR: error: --mesh: mesh axis "dp" is *; give --ranks N too
// RUN: not ps-opt %s --ps-set-mesh 2>&1 | FileCheck %s --check-prefix=NO-MESH
// NO-MESH: error: --ps-set-mesh needs the option mesh, such as mesh=dp=2,tp=2
// RUN: ps-opt %s --ps-set-mesh="mesh=pp=2,dp=2" | FileCheck %s --check-prefix=STAGES
// STAGES: ps.mesh @mesh <"pp" = 2 : pipeline, "dp" = 2 : data>

module {
}
