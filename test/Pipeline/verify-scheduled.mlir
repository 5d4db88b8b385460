// RUN: ps-opt %s -split-input-file -verify-diagnostics -ps-verify-scheduled

ps.mesh @mesh <"dp" = 2 : data>
ps.variable gradient @g of @w : tensor<4xf32>
ps.variable parameter @w : tensor<4xf32>
rank.program @scheduled_c1 pp = 0 entry "step" {
  %g = ps.read @g : tensor<4xf32>
  // expected-error@+1 {{(scheduled_c1) is never waited for}}
  %r, %t = rank.start "all_reduce" (%g) kind sum axes ["dp"] queue "dp" : (tensor<4xf32>) -> tensor<4xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
ps.variable parameter @w : tensor<4xf32>
rank.program @scheduled_c2 pp = 0 entry "step" {
  %g = ps.read @w : tensor<4xf32>
  %r, %t = rank.start "all_reduce" (%g) kind sum axes ["dp"] queue "dp" : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{(scheduled_c2) uses a collective's result before its wait}}
  rank.output "r" micro_batch 0 %r : tensor<4xf32>
  // expected-note@+1 {{waited for here}}
  rank.wait %t
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
ps.variable parameter @w : tensor<4xf32>
rank.program @scheduled_c3 pp = 0 entry "step" {
  %g = ps.read @w : tensor<4xf32>
  %r, %t = rank.start "all_reduce" (%g) kind sum axes ["dp"] queue "dp" : (tensor<4xf32>) -> tensor<4xf32>
  %s, %u = rank.start "all_reduce" (%g) kind max axes ["dp"] queue "dp" : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{(scheduled_c3) comes before the wait for an earlier entry of queue "dp"}}
  rank.wait %u
  rank.wait %t
}

// -----

// expected-error@+1 {{(scheduled_c4) is a stage function; run ps-schedule}}
func.func @scheduled_c4() attributes {ps.stage = 0 : i64} {
  return
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
rank.program @scheduled_c5 pp = 0 entry "step" {
  // expected-note@+1 {{read here}}
  %a = rank.input "x" micro_batch 0 : tensor<8xf32>
  // expected-error@+1 {{(scheduled_c5) reads an input that another op already reads}}
  %b = rank.input "x" micro_batch 0 : tensor<4xf32> of tensor<8xf32> as <@mesh, [{"dp"}]>
  %c = rank.input "x" micro_batch 1 : tensor<8xf32>
}

// -----

ps.mesh @mesh <"dp" = 2 : data>
ps.variable parameter @w : tensor<4xf32>
ps.variable gradient @w.grad of @w : tensor<4xf32>
func.func @h.backward_weight(%w: !ps.ref<tensor<4xf32>>) attributes {ps.class = "h", ps.phase = #ps.phase<backward_weight>, ps.saved = 0 : i64} {
  return
}
rank.program @scheduled_c6 pp = 0 entry "step" {
  %g = ps.read @w.grad : tensor<4xf32>
  // expected-note@+1 {{started here}}
  %r, %t = rank.start "all_reduce" (%g) kind sum axes ["dp"] queue "dp" : (tensor<4xf32>) -> tensor<4xf32>
  rank.run @h.backward_weight () variables [@w] : () -> ()
  // expected-error@+1 {{(scheduled_c6) may write "w.grad" while a collective reads it}}
  rank.run @h.backward_weight () variables [@w.grad] : () -> ()
  rank.wait %t
}
