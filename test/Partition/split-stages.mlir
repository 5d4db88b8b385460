// RUN: ps-opt %s -ps-split-stages | FileCheck %s
// RUN: ps-opt %s -ps-split-stages -ps-outline-segments | FileCheck %s --check-prefix=STAGES

// Two stages hold the segments [0, 1] and [2]. The mask depends only on an input, so the second
// stage recomputes it in an extra segment 2. The tied parameter @t has one gradient accumulator per
// stage. Both coordinates update @t, and the norm counts it once, on coordinate 0.
// CHECK: module attributes {{.*}}ps.stage_cuts = array<i64: 2>
// CHECK: ps.variable gradient @t.grad of @t
// CHECK: ps.variable gradient @t.grad.stage1 of @t {ps.adds_to = @t.grad}

// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[MASK:.*]] = ps.exp %arg1 {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64}
// CHECK: %[[COPY:.*]] = ps.exp %arg1 {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64}
// CHECK: %[[X:.*]] = ps.mul %arg0, %[[MASK]] {{.*}}ps.segment = 0
// CHECK: %[[Y:.*]] = ps.mul %[[X]], %{{.*}} {{.*}}ps.segment = 1
// CHECK: ps.mul %[[Y]], %[[COPY]] {{.*}}ps.segment = 3
// CHECK: ps.accumulate @t.grad.stage1, {{.*}}ps.segment = 3
// CHECK: ps.accumulate @t.grad, {{.*}}ps.segment = 0

// CHECK-LABEL: func.func @update.pp0() attributes {ps.coordinate = 0 : i64}
// CHECK: %[[G:.*]] = ps.read @t.grad {
// CHECK: %[[T:.*]] = ps.all_reduce sum %[[G]] over ["pp"] {ps.coordinates = array<i64: 0, 1>
// CHECK-NOT: @v
// CHECK: %[[SQUARE:.*]] = ps.mul %[[T]], %[[T]]
// CHECK: %[[PART:.*]] = ps.reshape %[[SQUARE]]
// CHECK: %[[PARTS:.*]] = ps.concat %[[PART]], %{{.*}} dim 0
// CHECK: %[[ALL:.*]] = ps.all_reduce sum %[[PARTS]] over ["pp"]
// CHECK: %[[SUM:.*]] = ps.reduce sum %[[ALL]] dims [0]
// CHECK: ps.sqrt %[[SUM]]
// CHECK: ps.write @t
// CHECK-NOT: ps.write

// CHECK-LABEL: func.func @update.pp1() attributes {ps.coordinate = 1 : i64}
// CHECK: %[[G:.*]] = ps.read @t.grad.stage1
// CHECK: %[[T:.*]] = ps.all_reduce sum %[[G]] over ["pp"] {ps.coordinates = array<i64: 0, 1>
// CHECK: %[[V:.*]] = ps.read @v.grad
// CHECK: %[[SQUARE:.*]] = ps.mul %[[V]], %[[V]]
// CHECK: %[[PART:.*]] = ps.reshape %[[SQUARE]]
// CHECK: ps.concat %{{.*}}, %[[PART]] dim 0
// CHECK: ps.write @t
// CHECK: ps.write @v

// One value and its cotangent are sent between the stages. Both stages take the input of the mask.
// STAGES: func.func @stage0.micro_batch(%arg0: tensor<f32> {ps.name = "x"}, %arg1: tensor<f32> {ps.name = "m"}, %arg2: tensor<f32> {ps.value = 1 : i64}, %arg3: i64) -> (tensor<f32> {ps.value = 0 : i64})
// STAGES: func.func @stage1.micro_batch(%arg0: tensor<f32> {ps.name = "m"}, %arg1: tensor<f32> {ps.value = 0 : i64}, %arg2: i64) -> (tensor<f32> {ps.value = 1 : i64})
// STAGES: func.func @stage0.update
// STAGES: func.func @stage1.update
module attributes {ps.stage_cuts = array<i64: 2>, ps.num_chunks = 1 : i64, ps.placement = "loop"} {
  ps.mesh @mesh <"pp" = 2 : pipeline>
  ps.variable parameter @t : tensor<f32>
  ps.variable gradient @t.grad of @t : tensor<f32>
  ps.variable parameter @v : tensor<f32>
  ps.variable gradient @v.grad of @v : tensor<f32>
  func.func @micro_batch(%x: tensor<f32> {ps.name = "x"}, %m: tensor<f32> {ps.name = "m"}) {
    %t = ps.read @t : tensor<f32>
    %v = ps.read @v : tensor<f32>
    %mask = ps.exp %m {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<f32>
    %0 = ps.mul %x, %mask {ps.phase = #ps.phase<forward>, ps.segment = 0 : i64} : tensor<f32>
    %1 = ps.mul %0, %t {ps.phase = #ps.phase<forward>, ps.segment = 1 : i64} : tensor<f32>
    %2 = ps.mul %1, %mask {ps.phase = #ps.phase<forward>, ps.segment = 2 : i64} : tensor<f32>
    %3 = ps.mul %2, %t {ps.phase = #ps.phase<backward_input>, ps.segment = 2 : i64} : tensor<f32>
    %4 = ps.mul %2, %v {ps.phase = #ps.phase<backward_input>, ps.segment = 2 : i64} : tensor<f32>
    ps.accumulate @t.grad, %3 {ps.phase = #ps.phase<backward_input>, ps.segment = 2 : i64} : tensor<f32>
    ps.accumulate @v.grad, %4 {ps.phase = #ps.phase<backward_input>, ps.segment = 2 : i64} : tensor<f32>
    %5 = ps.mul %3, %x {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<f32>
    ps.accumulate @t.grad, %5 {ps.phase = #ps.phase<backward_input>, ps.segment = 0 : i64} : tensor<f32>
    return
  }
  func.func @update() {
    %g = ps.read @t.grad {ps.phase = #ps.phase<update>} : tensor<f32>
    %h = ps.read @v.grad {ps.phase = #ps.phase<update>} : tensor<f32>
    %0 = ps.mul %g, %g {ps.phase = #ps.phase<update>} : tensor<f32>
    %1 = ps.mul %h, %h {ps.phase = #ps.phase<update>} : tensor<f32>
    %2 = ps.add %0, %1 {ps.phase = #ps.phase<update>} : tensor<f32>
    %norm = ps.sqrt %2 {ps.phase = #ps.phase<update>} : tensor<f32>
    %t = ps.div %g, %norm {ps.phase = #ps.phase<update>} : tensor<f32>
    %v = ps.div %h, %norm {ps.phase = #ps.phase<update>} : tensor<f32>
    ps.write @t, %t {ps.phase = #ps.phase<update>} : tensor<f32>
    ps.write @v, %v {ps.phase = #ps.phase<update>} : tensor<f32>
    return
  }
}
