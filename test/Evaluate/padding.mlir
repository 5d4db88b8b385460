// RUN: ps-run %s --entry unmasked | FileCheck %s --check-prefix=UNMASKED
// RUN: ps-run %s --entry masked | FileCheck %s --check-prefix=MASKED

// Five elements on two ranks leave one padding element on the second rank. The evaluator fills the
// padding of every result with NaN, so a sum that includes padding is NaN.
module attributes {ps.level = #ps.level<partitioned>} {
  ps.mesh @mesh <"tp" = 2 : tensor>
  ps.variable parameter @w init dense<0.0> : tensor<5xf32> {ps.sharding = #ps.sharding<@mesh, [{"tp"}]>} : tensor<5xf32>

  // UNMASKED: y : tensor<f32> = nan
  func.func @unmasked() -> (tensor<f32> {ps.name = "y"}) {
    %w = ps.read @w : tensor<3xf32>
    %e = ps.exp %w {ps.global = [tensor<5xf32>], ps.shardings = [#ps.sharding<@mesh, [{"tp"}]>]} : tensor<3xf32>
    %s = ps.reduce sum %e dims [0] : tensor<3xf32> -> tensor<f32>
    %y = ps.all_reduce sum %s over ["tp"] : tensor<f32>
    return %y : tensor<f32>
  }

  // The padding of a variable is zero. A select may replace padding, and its value is kept.
  // MASKED: y : tensor<f32> = 5
  func.func @masked() -> (tensor<f32> {ps.name = "y"}) {
    %w = ps.read @w : tensor<3xf32>
    %e = ps.exp %w {ps.global = [tensor<5xf32>], ps.shardings = [#ps.sharding<@mesh, [{"tp"}]>]} : tensor<3xf32>
    %i = ps.iota dim 0 : tensor<3xi64>
    %r = ps.shard_index over ["tp"] : tensor<i64>
    %three = ps.constant dense<3> : tensor<i64>
    %first = ps.mul %r, %three : tensor<i64>
    %b = ps.broadcast %first dims [] : tensor<i64> -> tensor<3xi64>
    %g = ps.add %i, %b : tensor<3xi64>
    %five = ps.constant dense<5> : tensor<3xi64>
    %valid = ps.compare lt %g, %five : tensor<3xi64> -> tensor<3xi1>
    %zero = ps.constant dense<0.0> : tensor<3xf32>
    %m = ps.select %valid, %e, %zero : tensor<3xi1>, tensor<3xf32>
    %s = ps.reduce sum %m dims [0] : tensor<3xf32> -> tensor<f32>
    %y = ps.all_reduce sum %s over ["tp"] : tensor<f32>
    return %y : tensor<f32>
  }
}
