// RUN: ps-opt %s -split-input-file -verify-diagnostics

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(send_c1) the peer is pipeline coordinate 0; expected 0 to 1, but not 0 (the program itself)}}
  %t = rank.send %x to pp 0 queue "act.0-0" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  // expected-error@+1 {{(recv_c1) the peer is pipeline coordinate 2; expected 0 to 1, but not 0 (the program itself)}}
  %x, %t = rank.recv from pp 2 queue "act.2-0" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(start_c3) runs over pipeline coordinates 1, 0; expected ascending coordinates below 2}}
  %r, %t = rank.start "all_reduce" (%x) kind sum over_pp [1, 0] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 3 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(start_c3) runs over pipeline coordinates 1, 2, which lack the program's own coordinate 0}}
  %r, %t = rank.start "all_reduce" (%x) kind sum over_pp [1, 2] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(start_c3) needs either axes or over_pp (pipeline coordinates), not both}}
  %r, %t = rank.start "all_reduce" (%x) kind sum queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
}
