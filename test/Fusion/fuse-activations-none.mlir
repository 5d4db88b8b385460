// Warns if --matmul-epilogues on has no effect, and only if the option is on.
// RUN: ps-opt -ps-fuse=activations=true %s 2>&1 >/dev/null | FileCheck %s
// RUN: ps-opt -ps-fuse %s 2>&1 >/dev/null | FileCheck %s --check-prefix=QUIET --allow-empty

// CHECK: warning: --matmul-epilogues on changes nothing
// QUIET-NOT: warning
ps.mesh @mesh <"tp" = 2 : tensor>

func.func @erf(%x: tensor<6x8xf32>, %w: tensor<8x12xf32>) -> tensor<6x12xf32> attributes {ps.class = "c"} {
  %h = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %y = ps.gelu erf %h : tensor<6x12xf32>
  return %y : tensor<6x12xf32>
}
