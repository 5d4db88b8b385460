// RUN: ps-opt %s -split-input-file -verify-diagnostics -ps-check-mode

func.func @off(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-warning@+1 {{the model was exported in eval mode: it trains with dropout off (p = 0.25 here, 2 dropouts in total)}}
  %0 = ps.dropout %x p 0.25 {training = false} : tensor<4xf32>
  %1 = ps.dropout %0 p 0.5 {training = false} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Twin: dropout in training mode, and eval-mode dropout with p = 0.
func.func @on(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = ps.dropout %x p 0.25 : tensor<4xf32>
  %1 = ps.dropout %0 p 0.0 {training = false} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

func.func @running(%x: tensor<4xf32>, %m: tensor<4xf32>) -> tensor<4xf32> {
  // expected-warning@+1 {{the model was exported in eval mode: its batch norms train with their running statistics}}
  %0 = ps.by_mode %m, %m {training = false} : tensor<4xf32>
  %1 = ps.by_mode %0, %m {training = false} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Twin: a batch norm in training mode.
func.func @batch(%x: tensor<4xf32>, %m: tensor<4xf32>) -> tensor<4xf32> {
  %0 = ps.by_mode %x, %m : tensor<4xf32>
  return %0 : tensor<4xf32>
}
