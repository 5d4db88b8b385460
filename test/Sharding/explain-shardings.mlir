// Prints the plan: parameters with reasons and collectives with bytes. Later levels keep the
// reasons.
// RUN: ps-opt %s --ps-seed-shardings=policy=megatron --ps-propagate-shardings --ps-explain-shardings --ps-partition --ps-explain-collectives -o /dev/null | FileCheck %s
// CHECK:      mesh: dp = 2 (data), tp = 2 (tensor)
// CHECK:      parameters
// CHECK-NEXT: name type sharding per rank why
// CHECK-NEXT: fc.weight 16x8xf32 [{"tp"}, {}] 256 B megatron: column parallel, first of a pair, the second at fc2 (model.py:7)
// CHECK-NEXT: out.weight 8x16xf32 [{}, {"tp"}] 256 B megatron: row parallel, second of a pair
// CHECK-NEXT: out.bias 8xf32 [{}] 32 B replicated: propagation found no split
// CHECK:      collectives
// CHECK-NEXT: count bytes collective axes when what why first at
// CHECK-NEXT: 1 64 B all_reduce tp forward result of ps.contract a summed dim is split fc2 (model.py:7)
// CHECK-NEXT: 1 4 B all_reduce dp update accumulator read partial sums over the batch

// RUN: ps-opt %s --ps-seed-shardings=policy=megatron --ps-propagate-shardings --ps-explain-shardings=record | FileCheck %s --check-prefix=RECORD
// RECORD: ps.explanation = "mesh: dp = 2 (data), tp = 2 (tensor)\0A

ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>
ps.variable parameter @fc.weight names ["fc.weight"] : tensor<16x8xf32>
ps.variable parameter @out.weight names ["out.weight"] : tensor<8x16xf32>
ps.variable parameter @out.bias names ["out.bias"] : tensor<8xf32>
ps.variable accumulator @loss.sum : tensor<f32>
func.func @micro_batch(%x: tensor<4x8xf32> {ps.name = "x"}) {
  %a = ps.read @fc.weight : tensor<16x8xf32>
  %b = ps.read @out.weight : tensor<8x16xf32>
  %c = ps.read @out.bias : tensor<8xf32>
  %0 = ps.contract %x [0, 1], %a [2, 1] -> [0, 2] : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %1 = ps.relu %0 : tensor<4x16xf32>
  %2 = ps.contract %1 [0, 1], %b [2, 1] -> [0, 2] : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32> loc("fc2"("/m/model.py":7:1))
  %3 = ps.broadcast %c dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %4 = ps.add %2, %3 : tensor<4x8xf32>
  %5 = ps.reduce sum %4 dims [0, 1] : tensor<4x8xf32> -> tensor<f32>
  ps.accumulate @loss.sum, %5 : tensor<f32>
  return
}
func.func @update() {
  %0 = ps.read @loss.sum {ps.phase = #ps.phase<update>} : tensor<f32>
  %1 = ps.mul %0, %0 {ps.phase = #ps.phase<update>} : tensor<f32>
  ps.write @loss.sum, %1 {ps.phase = #ps.phase<update>} : tensor<f32>
  return
}
