// RUN: ps-opt %s -split-input-file -verify-diagnostics -ps-partition

module {
  ps.mesh @mesh <"tp" = 2 : tensor>
  func.func @no_rule(%x: tensor<2xf32>) {
    // expected-error@+1 {{has no sharding rule; it cannot be partitioned}}
    %c = arith.constant 0 : i64
    return
  }
}
