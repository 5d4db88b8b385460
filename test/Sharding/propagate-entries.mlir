// RUN: ps-opt %s -split-input-file -ps-propagate-shardings -ps-verify-planned | FileCheck %s

// A buffer that an inference entry writes is split like the written value: along the batch and along
// the heads.
// CHECK: ps.variable buffer @cache {{.*}}ps.sharding = #ps.sharding<@mesh, [{"dp"}, {"tp"}, {}]>
module {
  ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>
  ps.variable buffer @cache : tensor<4x2x8xf32>
  func.func @decode(%x: tensor<4x2x8xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {"tp"}, {}]>}) attributes {ps.entry} {
    %0 = ps.read @cache {ps.phase = #ps.phase<evaluate>} : tensor<4x2x8xf32>
    %1 = ps.add %0, %x {ps.phase = #ps.phase<evaluate>} : tensor<4x2x8xf32>
    ps.write @cache, %1 {ps.phase = #ps.phase<evaluate>} : tensor<4x2x8xf32>
    return
  }
}

// -----

// Twin: a buffer that a training step writes is whole along data axes.
// CHECK: ps.variable buffer @cache {{.*}}ps.sharding = #ps.sharding<@mesh, [{}, {"tp"}, {}]>
module {
  ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>
  ps.variable buffer @cache : tensor<4x2x8xf32>
  func.func @micro_batch(%x: tensor<4x2x8xf32> {ps.sharding = #ps.sharding<@mesh, [{"dp"}, {"tp"}, {}]>}) {
    %0 = ps.read @cache {ps.phase = #ps.phase<forward>} : tensor<4x2x8xf32>
    %1 = ps.add %0, %x {ps.phase = #ps.phase<forward>} : tensor<4x2x8xf32>
    ps.write @cache, %1 {ps.phase = #ps.phase<forward>} : tensor<4x2x8xf32>
    return
  }
}
