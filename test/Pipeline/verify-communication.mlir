// RUN: ps-opt %s -split-input-file -verify-diagnostics -ps-verify-scheduled

// Valid: neighbors send to each other at the same time, as in 1F1B. Both start their receive
// before they wait.
ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  %t = rank.send %x to pp 1 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  %y, %u = rank.recv from pp 1 queue "grad.1-0" message (value = 1, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
  rank.wait %u
}
rank.program @pp1 pp = 1 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  %t = rank.send %x to pp 0 queue "grad.1-0" message (value = 1, micro_batch = 0) : tensor<4xf32>
  %y, %u = rank.recv from pp 0 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
  rank.wait %u
}

// -----

// Deadlock: each neighbor waits for its own send first.
ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-note@+1 {{pipeline coordinate 0 waits for value 0 of micro-batch 0 in queue "act.0-1"; coordinate 1 is not ready}}
  %t = rank.send %x to pp 1 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  // expected-error@+1 {{(scheduled_c8) deadlock: pipeline coordinates 0, 1 wait for one another}}
  rank.wait %t
  %y, %u = rank.recv from pp 1 queue "grad.1-0" message (value = 1, micro_batch = 0) : tensor<4xf32>
  rank.wait %u
}
rank.program @pp1 pp = 1 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-note@+1 {{pipeline coordinate 1 waits for value 1 of micro-batch 0 in queue "grad.1-0"; coordinate 0 is not ready}}
  %t = rank.send %x to pp 0 queue "grad.1-0" message (value = 1, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
  %y, %u = rank.recv from pp 0 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %u
}

// -----

// Two messages are received in another order than they are sent.
ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-note@+1 {{sent here}}
  %t = rank.send %x to pp 1 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  %u = rank.send %x to pp 1 queue "act.0-1" message (value = 0, micro_batch = 1) : tensor<4xf32>
  rank.wait %t
  rank.wait %u
}
rank.program @pp1 pp = 1 entry "step" {
  // expected-error@+1 {{(scheduled_c7) receives value 0 of micro-batch 1, 'tensor<4xf32>', as entry 0 of queue "act.0-1" from pipeline coordinate 0 to 1, but the entry sent is value 0 of micro-batch 0}}
  %y, %t = rank.recv from pp 0 queue "act.0-1" message (value = 0, micro_batch = 1) : tensor<4xf32>
  %z, %u = rank.recv from pp 0 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
  rank.wait %u
}

// -----

// Sender and receiver disagree on the type.
ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-note@+1 {{sent here}}
  %t = rank.send %x to pp 1 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
}
rank.program @pp1 pp = 1 entry "step" {
  // expected-error@+1 {{(scheduled_c7) receives value 0 of micro-batch 0, 'tensor<8xf32>'}}
  %y, %t = rank.recv from pp 0 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<8xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(scheduled_c7) has no counterpart: value 0 of micro-batch 0, entry 0 of queue "act.0-1" from pipeline coordinate 0 to 1, is never received}}
  %t = rank.send %x to pp 1 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
}
rank.program @pp1 pp = 1 entry "step" {
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
}
rank.program @pp1 pp = 1 entry "step" {
  // expected-error@+1 {{is never sent}}
  %y, %t = rank.recv from pp 0 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(scheduled_c1) is never waited for}}
  %t = rank.send %x to pp 1 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
}
rank.program @pp1 pp = 1 entry "step" {
  %y, %t = rank.recv from pp 0 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  %t = rank.send %x to pp 1 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %t
}
rank.program @pp1 pp = 1 entry "step" {
  %y, %t = rank.recv from pp 0 queue "act.0-1" message (value = 0, micro_batch = 0) : tensor<4xf32>
  // expected-error@+1 {{(scheduled_c2) uses a received value before its wait}}
  rank.output "y" micro_batch 0 %y : tensor<4xf32>
  // expected-note@+1 {{waited for here}}
  rank.wait %t
}

// -----

// One member does not start the reduction.
ps.mesh @mesh <"pp" = 2 : pipeline>
ps.variable parameter @w : tensor<4xf32>
rank.program @pp0 pp = 0 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  // expected-error@+1 {{(scheduled_c9) reduces over pipeline coordinates 0, 1, but coordinate 1 does not start this reduction}}
  %r, %t = rank.start "all_reduce" (%w) kind sum over_pp [0, 1] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
}
rank.program @pp1 pp = 1 entry "step" {
}

// -----

// The members start two reductions in different orders.
ps.mesh @mesh <"pp" = 2 : pipeline>
ps.variable parameter @w : tensor<4xf32>
ps.variable parameter @v : tensor<8xf32>
rank.program @pp0 pp = 0 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  %v = ps.read @v : tensor<8xf32>
  // expected-note@+1 {{other reduction here}}
  %r, %t = rank.start "all_reduce" (%w) kind sum over_pp [0, 1] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  %s, %u = rank.start "all_reduce" (%v) kind sum over_pp [0, 1] queue "shared" : (tensor<8xf32>) -> tensor<8xf32>
  rank.wait %t
  rank.wait %u
}
rank.program @pp1 pp = 1 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  %v = ps.read @v : tensor<8xf32>
  // expected-error@+1 {{(scheduled_c9) reduces tensor<8xf32>, but the same entry of queue "shared" reduces tensor<4xf32> on pipeline coordinate 0}}
  %s, %u = rank.start "all_reduce" (%v) kind sum over_pp [0, 1] queue "shared" : (tensor<8xf32>) -> tensor<8xf32>
  %r, %t = rank.start "all_reduce" (%w) kind sum over_pp [0, 1] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %u
  rank.wait %t
}

// -----

// The members reduce different variables of the same type.
ps.mesh @mesh <"pp" = 2 : pipeline>
ps.variable parameter @w : tensor<4xf32>
rank.program @pp0 pp = 0 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  // expected-note@+1 {{other reduction here}}
  %r, %t = rank.start "all_reduce" (%w) kind sum over_pp [0, 1] queue "shared" {ps.reduced = "v.grad"} : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
}
rank.program @pp1 pp = 1 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  // expected-error@+1 {{(scheduled_c9) reduces 'w.grad', tensor<4xf32>, but the same entry of queue "shared" reduces 'v.grad', tensor<4xf32> on pipeline coordinate 0}}
  %r, %t = rank.start "all_reduce" (%w) kind sum over_pp [0, 1] queue "shared" {ps.reduced = "w.grad"} : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
}

// -----

// Deadlock of three coordinates: each waits for a pairwise reduction that the next one has not
// reached.
ps.mesh @mesh <"pp" = 3 : pipeline>
ps.variable parameter @w : tensor<4xf32>
rank.program @pp0 pp = 0 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  // expected-note@+1 {{pipeline coordinate 0 waits for a reduction in queue "shared"; coordinate 1 is not ready}}
  %r, %t = rank.start "all_reduce" (%w) kind sum over_pp [0, 1] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{(scheduled_c8) deadlock: pipeline coordinates 0, 1, 2 wait for one another}}
  rank.wait %t
  %s, %u = rank.start "all_reduce" (%w) kind sum over_pp [0, 2] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %u
}
rank.program @pp1 pp = 1 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  // expected-note@+1 {{pipeline coordinate 1 waits for a reduction in queue "shared"; coordinate 2 is not ready}}
  %r, %t = rank.start "all_reduce" (%w) kind sum over_pp [1, 2] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
  %s, %u = rank.start "all_reduce" (%w) kind sum over_pp [0, 1] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %u
}
rank.program @pp2 pp = 2 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  // expected-note@+1 {{pipeline coordinate 2 waits for a reduction in queue "shared"; coordinate 0 is not ready}}
  %r, %t = rank.start "all_reduce" (%w) kind sum over_pp [0, 2] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %t
  %s, %u = rank.start "all_reduce" (%w) kind sum over_pp [1, 2] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %u
}

// -----

// Gradients must be accumulated in the order of the micro-batches.
ps.variable parameter @w : tensor<4xf32>
ps.variable gradient @w.grad of @w : tensor<4xf32>
func.func @h.backward_weight(%x: tensor<4xf32>, %g: !ps.ref<tensor<4xf32>>) attributes {ps.class = "h", ps.phase = #ps.phase<backward_weight>, ps.saved = 0 : i64} {
  ps.accumulate %g, %x : !ps.ref<tensor<4xf32>>
  return
}
rank.program @pp0 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-note@+1 {{added here}}
  rank.run @h.backward_weight segment 0(%x) variables [@w.grad] {ps.micro_batch = 1 : i64} : (tensor<4xf32>) -> ()
  // expected-error@+1 {{(scheduled_c10) adds micro-batch 0 to "w.grad" after a later micro-batch}}
  rank.run @h.backward_weight segment 0(%x) variables [@w.grad] {ps.micro_batch = 0 : i64} : (tensor<4xf32>) -> ()
}

// -----

// Deadlock: a collective follows a message in its queue, and the message is received after the
// wait.
ps.mesh @mesh <"dp" = 2 : data, "pp" = 2 : pipeline>
ps.variable parameter @w : tensor<4xf32>
rank.program @pp0 pp = 0 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  %u = rank.send %w to pp 1 queue "q" message (value = 0, micro_batch = 0) : tensor<4xf32>
  // expected-note@+1 {{pipeline coordinate 0 waits for a collective in queue "q" after value 0 of micro-batch 0; coordinate 1 is not ready}}
  %r, %t = rank.start "all_reduce" (%w) kind sum axes ["dp"] queue "q" : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{(scheduled_c8) deadlock: pipeline coordinates 0, 1 wait for one another}}
  rank.wait %t
  %s, %v = rank.start "all_reduce" (%w) kind sum over_pp [0, 1] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %u
  rank.wait %v
}
rank.program @pp1 pp = 1 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  // expected-note@+1 {{pipeline coordinate 1 waits for a reduction in queue "shared"; coordinate 0 is not ready}}
  %s, %v = rank.start "all_reduce" (%w) kind sum over_pp [0, 1] queue "shared" : (tensor<4xf32>) -> tensor<4xf32>
  rank.wait %v
  %y, %u = rank.recv from pp 0 queue "q" message (value = 0, micro_batch = 0) : tensor<4xf32>
  rank.wait %u
}

// -----

// An all-gather over the pipeline axis that only one coordinate runs.
ps.mesh @mesh <"pp" = 2 : pipeline>
ps.variable parameter @w : tensor<4xf32>
rank.program @pp0 pp = 0 entry "step" {
  %w = ps.read @w : tensor<4xf32>
  // expected-error@+1 {{(scheduled_c16) uses axis "pp" of kind pipeline, whose coordinates run different programs: ranks of other coordinates never join this collective}}
  %r, %t = rank.start "all_gather" (%w) axes ["pp"] dims [0] queue "pp" : (tensor<4xf32>) -> tensor<8xf32>
  rank.wait %t
}
rank.program @pp1 pp = 1 entry "step" {
}

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
// expected-error@+1 {{(scheduled_c15) has a tensor that is split over axis "pp" of kind pipeline, whose devices run different stages; axes that split tensors are none}}
ps.variable parameter @w {ps.sharding = #ps.sharding<@mesh, [{"pp"}]>} : tensor<4xf32>

// -----

ps.mesh @mesh <"pp" = 2 : pipeline>
// expected-error@+1 {{(scheduled_c17) belongs to entry "step", which has no program for pipeline coordinate 1}}
rank.program @pp0 pp = 0 entry "step" {
}

// -----

// expected-note@+1 {{first program here}}
rank.program @pp0 pp = 0 entry "step" {
}
// expected-error@+1 {{(scheduled_c17) is a second program of entry "step" for pipeline coordinate 0}}
rank.program @again pp = 0 entry "step" {
}
