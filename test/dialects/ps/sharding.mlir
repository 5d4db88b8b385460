// RUN: ps-opt %s -split-input-file -verify-diagnostics | ps-opt -split-input-file | FileCheck %s

// CHECK-LABEL: func.func private @printed
func.func private @printed() attributes {
  // CHECK-SAME: a = #ps.sharding<@mesh, [{"dp"}, (3 x 384 {"tp"}), {}], partial = {"cp": sum, "ep": max}>
  a = #ps.sharding<@mesh, [{"dp"}, (3 x 384 {"tp"}), {}], partial = {"cp": sum, "ep": max}>,
  // CHECK-SAME: b = #ps.sharding<@mesh, []>
  b = #ps.sharding<@mesh, []>,
  // Adjacent unsplit factors print as one. An unsplit dim prints without factors.
  // CHECK-SAME: c = #ps.sharding<@mesh, [(6 x 4 {"dp", "tp"}), {}]>
  c = #ps.sharding<@mesh, [(2 x 3 x 4 {"dp", "tp"}), (2 x 3)]>,
  // CHECK-SAME: d = #ps.sharding<@mesh, [{"tp"}]>
  d = #ps.sharding<@mesh, [(1 x 8 {"tp"})]>,
  // Twin: two split factors stay apart.
  // CHECK-SAME: e = #ps.sharding<@mesh, [(4 {"dp"} x 2 {"tp"})]>
  e = #ps.sharding<@mesh, [(4 {"dp"} x 2 {"tp"})]>
}

// -----

// expected-error @below {{mesh axis "tp" occurs twice in one sharding}}
func.func private @twice() attributes {a = #ps.sharding<@mesh, [{"tp"}, {"tp"}]>}

// -----

// expected-error @below {{expected sum, max or min, got 'mean'}}
func.func private @kind() attributes {a = #ps.sharding<@mesh, [{}], partial = {"tp": mean}>}

// -----

// expected-error @below {{expected normal, uniform or value, got 'gauss'}}
func.func private @drawn() attributes {a = #ps.distribution<gauss, 0.0, 1.0>}

// -----

// expected-error @below {{expected 'shape' or 'slice', got 'part'}}
func.func private @file() attributes {a = #ps.file<"x", part = [0:1]>}
