// Converts ops to the compute type of their class. The low-precision copy of a weight is a
// variable.
// RUN: ps-opt %s --ps-precision=precision=fp32 | FileCheck %s --check-prefix=NONE
// RUN: ps-opt %s "--ps-precision=precision=bf16" | FileCheck %s
// RUN: ps-opt %s "--ps-precision=precision=bf16,keep-fp32=net.linear" | FileCheck %s --check-prefix=KEEP
// RUN: ps-opt %s "--ps-precision=precision=bf16,compute=ps.exp" | FileCheck %s --check-prefix=COMPUTE
// RUN: ps-opt %s "--ps-precision=precision=half" | FileCheck %s --check-prefix=HALF
// RUN: ps-opt %s "--ps-precision=precision=fp32 gradient-reduction=bf16" | FileCheck %s --check-prefix=REDUCE
// RUN: ps-opt %s "--ps-precision=precision=fp32 gradient-reduction=bf16 zero=2" | FileCheck %s --check-prefix=EARLY
// RUN: ps-opt %s --ps-set-mesh=mesh=pp=2,dp=1 "--ps-precision=precision=fp32 gradient-reduction=bf16" 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: ps-opt %s --ps-set-mesh=mesh=pp=2,dp=2 "--ps-precision=precision=fp32 gradient-reduction=bf16" | FileCheck %s --check-prefix=REDUCE
// RUN: not ps-opt %s "--ps-precision=precision=fp16" 2>&1 | FileCheck %s --check-prefix=SCALE
// RUN: not ps-opt %s "--ps-precision=precision=bf16,keep-fp32=net.liner" 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not ps-opt %s "--ps-precision=precision=fp9" 2>&1 | FileCheck %s --check-prefix=BAD

// SCALE: error: --precision fp16: the module was dumped without loss scaling
// NEAR: --precision keep-fp32=net.liner matches no op and no module of the model; the nearest names are 'net.linear'
// BAD: --precision takes fp32, bf16, fp16, half or fp8
// ALONE: warning: --gradient-reduction bf16 has no effect: the mesh has no data or tensor axis with several ranks; remove the flag, or use a mesh such as dp=2
// ALONE-NOT: ps.convert
// Twin: in fp32, nothing changes.
// NONE-NOT: 16

// CHECK: ps.variable parameter @w : tensor<8x8xf32>
// HALF: ps.variable parameter @w : tensor<8x8xbf16>
ps.variable parameter @w : tensor<8x8xf32>
// HALF: ps.variable parameter @frozen init dense<1.000980e-01> : tensor<8xbf16> frozen
ps.variable parameter @frozen init dense<0.1> : tensor<8xf32> frozen
// CHECK: ps.variable gradient @w.grad of @w : tensor<8x8xf32>
// HALF: ps.variable gradient @w.grad of @w : tensor<8x8xbf16>
ps.variable gradient @w.grad of @w : tensor<8x8xf32>
ps.variable accumulator @loss : tensor<f32>
// CHECK: ps.variable copy @w.bf16 of @w : tensor<8x8xbf16>
// KEEP-NOT: copy
// HALF-NOT: copy

#f = #ps.phase<forward>
#b = #ps.phase<backward_input>
#w = #ps.phase<backward_weight>
#u = #ps.phase<update>

// CHECK-LABEL: func.func @micro_batch
// KEEP-LABEL: func.func @micro_batch
// COMPUTE-LABEL: func.func @micro_batch
// HALF-LABEL: func.func @micro_batch
// CHECK: %[[X:.*]] = ps.convert %arg0 {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[W:.*]] = ps.read @w.bf16
// CHECK: %[[Y:.*]] = ps.contract %[[X]] [0, 1], %[[W]] [2, 1] {{.*}} -> tensor<4x8xbf16>
// A bias takes the type of the value that it is added to, and is converted before its broadcast.
// CHECK: %[[B:.*]] = ps.read @frozen.bf16
// CHECK: ps.broadcast %[[B]]
// CHECK: ps.add {{.*}} : tensor<4x8xbf16>
// bf16 cannot represent 0.3, so the multiplication runs in f32 and its result is rounded once.
// CHECK: %[[MUL:.*]] = ps.mul {{.*}} : tensor<4x8xf32>
// CHECK: ps.convert %[[MUL]] {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[EXP:.*]] = ps.exp {{.*}} : tensor<4x8xf32>
// The matmul of a weight gradient returns f32 directly. Results and accumulators keep their types.
// CHECK: ps.contract {{.*}} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
// CHECK: return %{{.*}} : tensor<4x8xf32>
// KEEP: ps.contract {{.*}} -> tensor<4x8xf32>
// COMPUTE: ps.exp {{.*}} : tensor<4x8xbf16>
// HALF: ps.contract {{.*}} -> tensor<4x8xbf16>
// HALF: ps.exp {{.*}} : tensor<4x8xbf16>
// HALF: ps.contract {{.*}} -> tensor<8x8xbf16>
// EARLY-LABEL: func.func @micro_batch
// EARLY: %[[SUM:.*]] = ps.contract {{.*}} -> tensor<8x8xf32>
// EARLY: %[[SMALL:.*]] = ps.convert %[[SUM]] {{.*}} -> tensor<8x8xbf16>
// EARLY: %[[WIDE:.*]] = ps.convert %[[SMALL]] {{.*}} -> tensor<8x8xf32>
// EARLY: ps.accumulate @w.grad, %[[WIDE]]
// EARLY-LABEL: func.func @update
// EARLY-NOT: ps.convert
// EARLY: return
func.func @micro_batch(%x: tensor<4x8xf32>, %d: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = ps.read @w {ps.phase = #f} : tensor<8x8xf32> loc("net")
  %0 = ps.contract %x [0, 1], %w [2, 1] -> [0, 2] {ps.phase = #f} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("net.linear")
  %bias = ps.read @frozen {ps.phase = #f} : tensor<8xf32> loc("net")
  %1 = ps.broadcast %bias dims [1] {ps.phase = #f} : tensor<8xf32> -> tensor<4x8xf32> loc("net.linear")
  %2 = ps.add %0, %1 {ps.phase = #f} : tensor<4x8xf32> loc("net.linear")
  %third = ps.constant {ps.phase = #f} dense<0.3> : tensor<4x8xf32>
  %3 = ps.mul %2, %third {ps.phase = #f} : tensor<4x8xf32> loc("net.act")
  %4 = ps.exp %3 {ps.phase = #f} : tensor<4x8xf32> loc("net.act")
  %5 = ps.mul %d, %4 {ps.phase = #b} : tensor<4x8xf32> loc("net.act")
  %6 = ps.contract %5 [0, 1], %x [0, 2] -> [1, 2] {ps.phase = #w} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> loc("net.linear")
  ps.accumulate @w.grad, %6 {ps.phase = #w} : tensor<8x8xf32>
  return %4 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @update
// CHECK: %[[NEW:.*]] = ps.sub
// CHECK: %[[NARROW:.*]] = ps.convert %[[NEW]]
// CHECK: ps.write @w.bf16, %[[NARROW]]
// CHECK: ps.write @w, %[[NEW]]
// HALF-LABEL: func.func @update
// HALF: ps.sub {{.*}} : tensor<8x8xf32>
// HALF: ps.write @w, %{{.*}} : tensor<8x8xbf16>
// REDUCE-LABEL: func.func @update
// REDUCE: %[[G:.*]] = ps.read @w.grad {{.*}} : tensor<8x8xf32>
// REDUCE: %[[SMALL:.*]] = ps.convert %[[G]] {{.*}} -> tensor<8x8xbf16>
// REDUCE: ps.convert %[[SMALL]] {{.*}} -> tensor<8x8xf32>
func.func @update() {
  %w = ps.read @w {ps.phase = #u} : tensor<8x8xf32>
  %g = ps.read @w.grad {ps.phase = #u} : tensor<8x8xf32>
  %0 = ps.sub %w, %g {ps.phase = #u} : tensor<8x8xf32>
  ps.write @w, %0 {ps.phase = #u} : tensor<8x8xf32>
  return
}
