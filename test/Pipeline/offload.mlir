// RUN: ps-opt %s -split-input-file -ps-offload=piece-bytes=4096 -ps-verify-scheduled | FileCheck %s
// RUN: not ps-opt %s -split-input-file -ps-offload=what=state 2>&1 | FileCheck %s --check-prefix=WHAT
// WHAT: ps-offload what=state is not valid; use optimizer, activations, activations=all, or several of them separated by commas

// The update has two pieces of one run each. The variables of both pieces are fetched before the
// first run, and offloaded again after the run that uses them.
module attributes {ps.level = #ps.level<scheduled>} {
  // CHECK: ps.variable parameter @a :
  ps.variable parameter @a : tensor<4xf32>
  // CHECK: ps.variable optimizer @a.mean of @a {ps.host}
  ps.variable optimizer @a.mean of @a : tensor<4xf32>
  ps.variable parameter @b : tensor<4xf32>
  // CHECK: ps.variable optimizer @b.mean of @b {ps.host}
  ps.variable optimizer @b.mean of @b : tensor<4xf32>
  func.func @h.forward(%w: !ps.ref<tensor<4xf32>>) attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return
  }
  func.func @k.update(%w: !ps.ref<tensor<4xf32>>, %m: !ps.ref<tensor<4xf32>>) attributes {ps.class = "k", ps.phase = #ps.phase<update>} {
    return
  }
  // CHECK-LABEL: rank.program @pp0
  // CHECK-NEXT: rank.run @h.forward
  // CHECK-NEXT: rank.run @h.forward
  // CHECK-NEXT: %[[A:.*]], %[[T0:.*]] = rank.fetch [@a.mean]
  // CHECK-NEXT: %[[B:.*]], %[[T1:.*]] = rank.fetch [@b.mean]
  // CHECK-NEXT: rank.wait %[[T0]]
  // CHECK-NEXT: rank.run @k.update() variables [@a, @a.mean] staged(%[[A]] :
  // CHECK-NEXT: %[[T2:.*]] = rank.offload %[[A]]
  // CHECK-NEXT: rank.wait %[[T1]]
  // CHECK-NEXT: rank.run @k.update() variables [@b, @b.mean] staged(%[[B]] :
  // CHECK-NEXT: %[[T3:.*]] = rank.offload %[[B]]
  // CHECK-NEXT: rank.wait %[[T2]]
  // CHECK-NEXT: rank.wait %[[T3]]
  rank.program @pp0 pp = 0 entry "step" {
    rank.run @h.forward () variables [@a] : () -> ()
    rank.run @h.forward () variables [@b] : () -> ()
    rank.run @k.update () variables [@a, @a.mean] : () -> ()
    rank.run @k.update () variables [@b, @b.mean] : () -> ()
  }
}

// -----

// Twin: variables that are read outside of runs, used by forward or used by two runs, and scalars
// stay on the device.
module attributes {ps.level = #ps.level<scheduled>} {
  // CHECK: ps.variable parameter @a :
  ps.variable parameter @a : tensor<4xf32>
  // CHECK-NOT: ps.host
  ps.variable optimizer @a.mean of @a : tensor<4xf32>
  ps.variable optimizer @shared of @a : tensor<4xf32>
  ps.variable optimizer @used of @a : tensor<4xf32>
  ps.variable optimizer @count of @a : tensor<f32>
  func.func @h.forward(%w: !ps.ref<tensor<4xf32>>) attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    return
  }
  func.func @k.update(%w: !ps.ref<tensor<4xf32>>) attributes {ps.class = "k", ps.phase = #ps.phase<update>} {
    return
  }
  func.func @s.update(%w: !ps.ref<tensor<f32>>) attributes {ps.class = "s", ps.phase = #ps.phase<update>} {
    return
  }
  // CHECK-LABEL: rank.program @pp0
  // CHECK-NOT: rank.fetch
  rank.program @pp0 pp = 0 entry "step" {
    %0 = ps.read @a.mean : tensor<4xf32>
    rank.run @h.forward () variables [@used] : () -> ()
    rank.run @k.update () variables [@a.mean] : () -> ()
    rank.run @k.update () variables [@shared] : () -> ()
    rank.run @k.update () variables [@shared] : () -> ()
    rank.run @k.update () variables [@used] : () -> ()
    rank.run @s.update () variables [@count] : () -> ()
  }
}
