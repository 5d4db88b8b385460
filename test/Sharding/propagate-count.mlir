// RUN: ps-opt %s -split-input-file -ps-propagate-shardings -ps-verify-planned | FileCheck %s

// An accumulator that micro-batches read is reduced when it is accumulated.
// CHECK: ps.variable accumulator @loss.count {{.*}}ps.sharding = #ps.sharding<@mesh, []>
// CHECK: ps.reduce sum {{.*}}ps.shardings = [#ps.sharding<@mesh, []>]
module {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable accumulator @loss.count : tensor<f32>
  func.func @count(%m: tensor<8xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>}) {
    %c = ps.reduce sum %m dims [0] {ps.phase = #ps.phase<forward>} : tensor<8xf32> -> tensor<f32>
    ps.accumulate @loss.count, %c {ps.phase = #ps.phase<forward>} : tensor<f32>
    return
  }
  func.func @micro_batch() -> tensor<f32> {
    %c = ps.read @loss.count {ps.phase = #ps.phase<forward>} : tensor<f32>
    return %c : tensor<f32>
  }
}

// -----

// Twin: an accumulator that only the update reads is reduced in the update, once per step.
// CHECK: ps.variable accumulator @loss.count {{.*}}ps.sharding = #ps.sharding<@mesh, [], partial = {"dp": sum}>
// CHECK: ps.reduce sum {{.*}}ps.shardings = [#ps.sharding<@mesh, [], partial = {"dp": sum}>]
module {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable accumulator @loss.count : tensor<f32>
  ps.variable accumulator @loss : tensor<f32>
  func.func @micro_batch(%m: tensor<8xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}]>}) {
    %c = ps.reduce sum %m dims [0] {ps.phase = #ps.phase<forward>} : tensor<8xf32> -> tensor<f32>
    ps.accumulate @loss.count, %c {ps.phase = #ps.phase<forward>} : tensor<f32>
    return
  }
  func.func @update() {
    %c = ps.read @loss.count {ps.phase = #ps.phase<update>} : tensor<f32>
    ps.write @loss, %c {ps.phase = #ps.phase<update>} : tensor<f32>
    return
  }
}
