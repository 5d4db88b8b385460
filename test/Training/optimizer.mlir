// RUN: ps-opt %s "-ps-optimizer=optimizer=\"ndim<2=sgd(lr=0.5);adamw(lr=1e-3,betas=(0.9,0.95),weight_decay=0.1)\"" | FileCheck %s
// RUN: ps-opt %s "-ps-optimizer=optimizer=\"sgd(lr=0.5)\" clip-norm=1.0" | FileCheck %s --check-prefix=CLIP
// RUN: ps-opt %s "-ps-optimizer=optimizer=\"sgd(lr=0.5)\" ema=0.75" | FileCheck %s --check-prefix=EMA
// RUN: ps-opt %s -ps-optimizer | FileCheck %s --check-prefix=NONE

// Twin: without an optimizer there is no update.
// NONE-NOT: @lr
// NONE-NOT: ps.write @w

ps.variable parameter @w : tensor<4x8xf32>
ps.variable parameter @b : tensor<8xf32>
ps.variable parameter @still frozen : tensor<8xf32>
ps.variable accumulator @loss.count : tensor<f32>
ps.variable gradient @w.grad of @w : tensor<4x8xf32>
ps.variable gradient @b.grad of @b : tensor<8xf32>
// With several learning rates, each parameter names its own.
// CHECK-DAG: ps.variable parameter @w {ps.lr = @lr.1}
// CHECK-DAG: ps.variable parameter @b {ps.lr = @lr.0}
// CHECK-DAG: ps.variable scalar @lr.0 init dense<5.000000e-01>{{.*}} : tensor<f32>
// CHECK-DAG: ps.variable scalar @lr.1 init dense<1.000000e-03>{{.*}} : tensor<f32>
// The other hyperparameters are scalars too. The group without a weight decay and momentum has only
// a learning rate.
// CHECK-DAG: ps.variable scalar @weight_decay.1 init dense<1.000000e-01>{{.*}} : tensor<f32>
// CHECK-DAG: ps.variable scalar @beta1.1 init dense<0.899999976>{{.*}} : tensor<f32>
// CHECK-DAG: ps.variable scalar @beta1.1.one_minus of @beta1.1 init dense<1.000000e-01>{{.*}} : tensor<f32>
// CHECK-DAG: ps.variable scalar @beta1.1.log of @beta1.1 init dense<-0.105360515>{{.*}} : tensor<f32>
// CHECK-DAG: ps.variable optimizer @optimizer.0.count of @b {ps.shared} : tensor<f32>
// CHECK-DAG: ps.variable optimizer @optimizer.1.count of @w {ps.shared} : tensor<f32>
// CHECK-DAG: ps.variable optimizer @w.adamw.mean of @w : tensor<4x8xf32>
// CHECK-DAG: ps.variable optimizer @w.adamw.square of @w : tensor<4x8xf32>
// CHECK-NOT: @weight_decay.0
// CHECK-NOT: @momentum
// CHECK-NOT: @b.adamw
// CHECK-NOT: .ema

// CHECK-LABEL: func.func @update
// CHECK: %[[C:.*]] = ps.read @loss.count
// CHECK: %[[OK:.*]] = ps.compare ne %[[C]]
// CHECK: ps.read @w.grad
// CHECK: ps.read @b.grad
// CHECK: ps.write @optimizer.0.count, %{{.*}} if %[[OK]]
// CHECK: ps.write @b, %{{.*}} if %[[OK]]
// CHECK: ps.write @w.adamw.mean, %{{.*}} if %[[OK]]
// CHECK: ps.write @w.adamw.square, %{{.*}} if %[[OK]]
// CHECK: ps.write @w, %{{.*}} if %[[OK]] {ps.phase = #ps.phase<update>}
// CHECK-NOT: @still
// CLIP-DAG: ps.variable parameter @w :
// CLIP-DAG: ps.variable scalar @lr init
// CLIP-DAG: ps.variable accumulator @grad_norm
// CLIP-DAG: ps.variable scalar @clip_grad_norm init dense<1.000000e+00>{{.*}} : tensor<f32>
// CLIP: ps.reduce sum
// CLIP: ps.write @grad_norm
// CLIP: %[[BOUND:.*]] = ps.read @clip_grad_norm
// CLIP: ps.div %[[BOUND]]
// CLIP: ps.min
// Each trained parameter has a running average. After the first applied step, the average equals
// the parameter.
// EMA-DAG: ps.variable average @w.ema of @w : tensor<4x8xf32>
// EMA-DAG: ps.variable average @b.ema of @b : tensor<8xf32>
// EMA-NOT: @still.ema
// EMA-LABEL: func.func @update
// EMA: %[[COUNT:.*]] = ps.read @optimizer.0.count
// EMA: %[[FIRST:.*]] = ps.compare eq %[[COUNT]]
// EMA: %[[SHARE:.*]] = ps.select %[[FIRST]]
// EMA: %[[NEW:.*]] = ps.sub
// EMA: %[[OLD:.*]] = ps.read @w.ema
// EMA: %[[SHARES:.*]] = ps.broadcast %[[SHARE]]
// EMA: %[[GAP:.*]] = ps.sub %[[NEW]], %[[OLD]]
// EMA: %[[MOVE:.*]] = ps.mul %[[SHARES]], %[[GAP]]
// EMA: %[[NEXT:.*]] = ps.add %[[OLD]], %[[MOVE]]
// EMA: ps.write @w.ema, %[[NEXT]] if
func.func @update() {
  return
}
