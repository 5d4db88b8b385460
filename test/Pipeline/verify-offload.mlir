// RUN: ps-opt %s -split-input-file -verify-diagnostics -ps-verify-scheduled

ps.variable parameter @a : tensor<4xf32>
ps.variable optimizer @m of @a {ps.host} : tensor<4xf32>
func.func private @k.update(!ps.ref<tensor<4xf32>>) attributes {ps.class = "k", ps.phase = #ps.phase<update>, ps.saved = 0 : i64}
rank.program @scheduled_c1 pp = 0 entry "step" {
  // expected-error@+1 {{(scheduled_c1) is never waited for}}
  %s, %t = rank.fetch [@m] : !ps.ref<tensor<4xf32>>
  %u = rank.offload %s : !ps.ref<tensor<4xf32>>
  rank.wait %u
}

// -----

ps.variable parameter @a : tensor<4xf32>
ps.variable optimizer @m of @a {ps.host} : tensor<4xf32>
func.func private @k.update(!ps.ref<tensor<4xf32>>) attributes {ps.class = "k", ps.phase = #ps.phase<update>, ps.saved = 0 : i64}
rank.program @scheduled_c11 pp = 0 entry "step" {
  // expected-error@+1 {{(scheduled_c11) uses @m, which is in host memory and not fetched for this op}}
  rank.run @k.update () variables [@m] : () -> ()
}

// -----

ps.variable parameter @a : tensor<4xf32>
ps.variable optimizer @m of @a : tensor<4xf32>
rank.program @scheduled_c11_stays pp = 0 entry "step" {
  // expected-error@+1 {{(scheduled_c11) fetches @m, which is not in host memory}}
  %s, %t = rank.fetch [@m] : !ps.ref<tensor<4xf32>>
  rank.wait %t
}

// -----

ps.variable parameter @a : tensor<4xf32>
ps.variable optimizer @m of @a {ps.host} : tensor<4xf32>
func.func private @k.update(!ps.ref<tensor<4xf32>>) attributes {ps.class = "k", ps.phase = #ps.phase<update>, ps.saved = 0 : i64}
rank.program @scheduled_c12 pp = 0 entry "step" {
  %s, %t = rank.fetch [@m] : !ps.ref<tensor<4xf32>>
  // expected-error@+1 {{(scheduled_c12) uses @m before the wait for its fetch or after its offload}}
  rank.run @k.update () variables [@m] staged(%s : !ps.ref<tensor<4xf32>>) : () -> ()
  rank.wait %t
  %u = rank.offload %s : !ps.ref<tensor<4xf32>>
  rank.wait %u
}

// -----

ps.variable parameter @a : tensor<4xf32>
ps.variable optimizer @m of @a {ps.host} : tensor<4xf32>
func.func private @k.update(!ps.ref<tensor<4xf32>>) attributes {ps.class = "k", ps.phase = #ps.phase<update>, ps.saved = 0 : i64}
rank.program @scheduled_c12_back pp = 0 entry "step" {
  %s, %t = rank.fetch [@m] : !ps.ref<tensor<4xf32>>
  rank.wait %t
  %u = rank.offload %s : !ps.ref<tensor<4xf32>>
  // expected-error@+1 {{(scheduled_c12) uses @m before the wait for its fetch or after its offload}}
  rank.run @k.update () variables [@m] staged(%s : !ps.ref<tensor<4xf32>>) : () -> ()
  rank.wait %u
}

// -----

ps.variable parameter @a : tensor<4xf32>
ps.variable optimizer @m of @a {ps.host} : tensor<4xf32>
rank.program @scheduled_c13 pp = 0 entry "step" {
  // expected-error@+1 {{(scheduled_c13) fetches @m, but never offloads it}}
  %s, %t = rank.fetch [@m] : !ps.ref<tensor<4xf32>>
  rank.wait %t
}

// -----

ps.variable parameter @a : tensor<4xf32>
ps.variable optimizer @m of @a {ps.host} : tensor<4xf32>
rank.program @scheduled_c13_early pp = 0 entry "step" {
  %s, %t = rank.fetch [@m] : !ps.ref<tensor<4xf32>>
  rank.wait %t
  %u = rank.offload %s : !ps.ref<tensor<4xf32>>
  // expected-error@+1 {{(scheduled_c13) fetches @m before the wait for its last offload}}
  %r, %v = rank.fetch [@m] : !ps.ref<tensor<4xf32>>
  rank.wait %u
  rank.wait %v
  %w = rank.offload %r : !ps.ref<tensor<4xf32>>
  rank.wait %w
}

// -----

ps.variable parameter @a : tensor<4xf32>
ps.variable optimizer @m of @a {ps.host} : tensor<4xf32>
ps.variable optimizer @n of @a {ps.host} : tensor<4xf32>
func.func private @k.update(!ps.ref<tensor<4xf32>>) attributes {ps.class = "k", ps.phase = #ps.phase<update>, ps.saved = 0 : i64}
rank.program @run_c5 pp = 0 entry "step" {
  %s, %t = rank.fetch [@m] : !ps.ref<tensor<4xf32>>
  // expected-error@+1 {{(run_c5) has @m staged, which is not one of its variables}}
  rank.run @k.update () variables [@n] staged(%s : !ps.ref<tensor<4xf32>>) : () -> ()
}

// -----

ps.variable parameter @a : tensor<4xf32>
rank.program @fetch_c2 pp = 0 entry "step" {
  // expected-error@+1 {{(fetch_c2) has a result of type '!ps.ref<tensor<5xf32>>' for variable @a, expected '!ps.ref<tensor<4xf32>>'}}
  %s, %t = rank.fetch [@a] : !ps.ref<tensor<5xf32>>
}

// -----

ps.variable parameter @a : tensor<4xf32>
rank.program @fetch_c1 pp = 0 entry "step" {
  // expected-error@+1 {{(fetch_c1) has 1 variables and 2 results, expected at least one variable and one result per variable}}
  %s:2, %t = rank.fetch [@a] : !ps.ref<tensor<4xf32>>, !ps.ref<tensor<4xf32>>
}

// -----

rank.program @scheduled_c14 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  %h, %t = rank.stash %x : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{(scheduled_c14) unstashes values before the wait for their stash}}
  %y, %u = rank.unstash %h : tensor<4xf32> -> tensor<4xf32>
  rank.wait %t
  rank.wait %u
}

// -----

rank.program @scheduled_c14_early pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  %h, %t = rank.stash %x : tensor<4xf32> -> tensor<4xf32>
  rank.wait %t
  %y, %u = rank.unstash %h : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{(scheduled_c14) uses an unstashed value before its wait}}
  rank.output "x" micro_batch 0 %y : tensor<4xf32>
  // expected-note@+1 {{waited for here}}
  rank.wait %u
}

// -----

rank.program @scheduled_c14_used pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(scheduled_c14) has a result that needs exactly one use, by a rank.unstash}}
  %h, %t = rank.stash %x : tensor<4xf32> -> tensor<4xf32>
  rank.wait %t
  rank.output "x" micro_batch 0 %h : tensor<4xf32>
}

// -----

rank.program @stash_c1 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(stash_c1) has operands}}
  %h, %t = rank.stash %x : tensor<4xf32> -> tensor<5xf32>
}

// -----

rank.program @unstash_c1 pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  // expected-error@+1 {{(unstash_c1) has an operand that is not a result of rank.stash}}
  %y, %u = rank.unstash %x : tensor<4xf32> -> tensor<4xf32>
}
