// RUN: ps-opt %s -split-input-file -verify-diagnostics

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(send_c1) the other pipeline coordinate is 0; expected one below 2 that is not the program's own, 0}}
  %t = rank.send %x to pp 0 queue "act.0-0" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  // expected-error@+1 {{(recv_c1) the other pipeline coordinate is 2; expected one below 2}}
  %x, %t = rank.recv from pp 2 queue "act.2-0" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(start_c3) goes over pipeline coordinates 1, 0; expected ascending ones below 2}}
  %r, %t = rank.start "all_reduce" (%x) kind sum over_pp [1, 0] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 3 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(start_c3) goes over pipeline coordinates 1, 2, without the program's own, 0}}
  %r, %t = rank.start "all_reduce" (%x) kind sum over_pp [1, 2] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(start_c3) goes over axes or over pipeline coordinates: give one of them}}
  %r, %t = rank.start "all_reduce" (%x) kind sum queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
}
