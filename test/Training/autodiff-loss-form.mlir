// RUN: ps-opt %s -split-input-file -ps-autodiff | FileCheck %s

// A sum multiplied by a constant is a mean over a static count.
// CHECK: ps.loss_average = "step"
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[SUM:.*]] = ps.reduce sum
// CHECK: %[[COUNT:.*]] = ps.constant {{.*}}dense<8.000000e+00>
// CHECK: ps.accumulate @loss.sum, %[[SUM]]
// CHECK: ps.accumulate @loss.count, %[[COUNT]]
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward() -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %w : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %k = ps.constant dense<0.125> : tensor<f32>
    %l = ps.mul %s, %k : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// A mean over counted elements plus another term. @count computes the count of the step from the
// inputs that it needs. The other term is multiplied by count / number of micro-batches, its share
// of the step.
// CHECK: ps.loss_average = "step+micro-batch"
// CHECK-NOT: ps.uneven_loss
// CHECK-LABEL: func.func @count
// CHECK-SAME: (%[[M:.*]]: tensor<8xf32> {ps.name = "m"}) {
// CHECK-NEXT: %[[C:.*]] = ps.reduce sum %[[M]] dims [0]
// CHECK-NEXT: ps.accumulate @loss.count, %[[C]] {ps.phase = #ps.phase<forward>}
// CHECK-NEXT: %[[ONE:.*]] = ps.constant {{.*}}dense<1.000000e+00>
// CHECK-NEXT: ps.accumulate @loss.micro_batches, %[[ONE]]
// CHECK-NEXT: return
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[S:.*]] = ps.reduce sum
// CHECK: %[[T:.*]] = ps.reduce sum
// CHECK: %[[COUNT:.*]] = ps.read @loss.count
// CHECK: %[[BATCHES:.*]] = ps.read @loss.micro_batches
// CHECK: %[[F:.*]] = ps.div %[[COUNT]], %[[BATCHES]]
// CHECK: %[[SHARE:.*]] = ps.mul %[[F]], %[[T]]
// CHECK: %[[SUM:.*]] = ps.add %[[S]], %[[SHARE]]
// CHECK-NOT: ps.accumulate @loss.count
// CHECK: ps.accumulate @loss.sum, %[[SUM]]
// CHECK-NOT: ps.accumulate @loss.count
// CHECK: ps.accumulate @w.grad
// CHECK-LABEL: func.func @evaluate
// CHECK-SAME: {ps.name = "loss.sum"}, tensor<f32> {ps.name = "loss.count"}, tensor<f32> {ps.name = "loss.sum.1"}, tensor<f32> {ps.name = "loss.count.1"}
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward(%x: tensor<8xf32> {ps.name = "x"}, %m: tensor<8xf32> {ps.name = "m"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %p = ps.mul %w, %x : tensor<8xf32>
    %q = ps.mul %p, %m : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %c = ps.reduce sum %m dims [0] : tensor<8xf32> -> tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    %t = ps.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    %r = ps.add %l, %t : tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

// Two means with different counts: the sum of the second is multiplied by first count / second
// count. Means with equal counts are merged, and a subtracted mean is negated.
// CHECK: ps.loss_average = "step"
// CHECK-LABEL: func.func @count
// CHECK: ps.accumulate @loss.count, %
// CHECK: ps.accumulate @loss.counted, %
// CHECK-LABEL: func.func @micro_batch
// CHECK-SAME: %[[M:[^:]*]]: tensor<8xf32> {ps.name = "m"}, %[[N:[^:]*]]: tensor<8xf32>
// CHECK-DAG: %[[Q:.*]] = ps.mul %{{.*}}, %[[M]]
// CHECK-DAG: %[[U:.*]] = ps.mul %{{.*}}, %[[N]]
// CHECK-DAG: %[[S:.*]] = ps.reduce sum %[[Q]]
// CHECK-DAG: %[[V:.*]] = ps.reduce sum %[[U]]
// CHECK-DAG: %[[NEG:.*]] = ps.neg %[[V]]
// CHECK: %[[BOTH:.*]] = ps.add %[[S]], %[[S]]
// CHECK: %[[COUNT:.*]] = ps.read @loss.count {
// CHECK: %[[OTHER:.*]] = ps.read @loss.counted
// CHECK: %[[RATIO:.*]] = ps.div %[[COUNT]], %[[OTHER]]
// CHECK: %[[COUNTED:.*]] = ps.compare ne %[[OTHER]],
// CHECK: %[[F:.*]] = ps.select %[[COUNTED]], %[[RATIO]],
// CHECK: %[[P:.*]] = ps.mul %[[F]], %[[NEG]]
// CHECK: %[[SUM:.*]] = ps.add %[[BOTH]], %[[P]]
// CHECK: ps.accumulate @loss.sum, %[[SUM]]
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward(%m: tensor<8xf32> {ps.name = "m"}, %n: tensor<8xf32> {ps.name = "n"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %m : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %c = ps.reduce sum %m dims [0] : tensor<8xf32> -> tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    %u = ps.mul %w, %n : tensor<8xf32>
    %v = ps.reduce sum %u dims [0] : tensor<8xf32> -> tensor<f32>
    %d = ps.reduce sum %n dims [0] : tensor<8xf32> -> tensor<f32>
    %k = ps.div %v, %d : tensor<f32>
    %e = ps.sub %l, %k : tensor<f32>
    %r = ps.add %e, %l : tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

// A sum over the samples with a factor other than 1 / number of samples. The count of the step is 1
// for any number of micro-batches, so there is no @count.
// CHECK-NOT: ps.ambiguous_mean
// CHECK: ps.loss_average = "sum"
// CHECK-NOT: func.func @count
// CHECK-LABEL: func.func @micro_batch
// CHECK: ps.reduce sum
// CHECK: %[[S:.*]] = ps.reduce sum
// CHECK: %[[H:.*]] = ps.mul %[[S]],
// CHECK: ps.accumulate @loss.sum, %[[H]]
// CHECK: %[[ONE:.*]] = ps.constant {{.*}}dense<1.000000e+00>
// CHECK: ps.write @loss.count, %[[ONE]]
module {
  ps.variable parameter @w : tensor<8x4xf32>
  func.func @forward(%x: tensor<8x4xf32> {ps.name = "x"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8x4xf32>
    %q = ps.mul %w, %x : tensor<8x4xf32>
    %t = ps.reduce sum %q dims [1] : tensor<8x4xf32> -> tensor<8xf32>
    %s = ps.reduce sum %t dims [0] : tensor<8xf32> -> tensor<f32>
    %h = ps.constant dense<0.5> : tensor<f32>
    %l = ps.mul %s, %h : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Twins: a division by the number of samples, or a factor of 1 / number of elements, gives a mean.
// CHECK: ps.loss_average = "step"
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[COUNT:.*]] = ps.constant {{.*}}dense<8.000000e+00>
// CHECK: ps.accumulate @loss.count, %[[COUNT]]
module {
  ps.variable parameter @w : tensor<8x4xf32>
  func.func @forward(%x: tensor<8x4xf32> {ps.name = "x"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8x4xf32>
    %q = ps.mul %w, %x : tensor<8x4xf32>
    %s = ps.reduce sum %q dims [0, 1] : tensor<8x4xf32> -> tensor<f32>
    %h = ps.constant dense<8.0> : tensor<f32>
    %l = ps.div %s, %h : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// CHECK: ps.ambiguous_mean = #loc
// CHECK-SAME: ps.loss_average = "step"
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[COUNT:.*]] = ps.constant {{.*}}dense<3.200000e+01>
// CHECK: ps.accumulate @loss.count, %[[COUNT]]
module {
  ps.variable parameter @w : tensor<8x4xf32>
  func.func @forward(%x: tensor<8x4xf32> {ps.name = "x"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8x4xf32>
    %q = ps.mul %w, %x : tensor<8x4xf32>
    %s = ps.reduce sum %q dims [0, 1] : tensor<8x4xf32> -> tensor<f32>
    %h = ps.constant dense<0.03125> : tensor<f32>
    %l = ps.mul %s, %h : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Sums that are not over samples: over elements that each depend on the whole batch (as in an
// expert balance loss), or over parameters. Such losses are averaged over micro-batches.
// CHECK: ps.loss_average = "micro-batch"
// CHECK-LABEL: func.func @micro_batch
module {
  ps.variable parameter @w : tensor<8x4xf32>
  func.func @forward(%x: tensor<8x4xf32> {ps.name = "x"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8x4xf32>
    %q = ps.mul %w, %x : tensor<8x4xf32>
    %t = ps.reduce sum %q dims [0] : tensor<8x4xf32> -> tensor<4xf32>
    %u = ps.mul %t, %t : tensor<4xf32>
    %s = ps.reduce sum %u dims [0] : tensor<4xf32> -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// CHECK: ps.loss_average = "micro-batch"
// CHECK-LABEL: func.func @micro_batch
module {
  ps.variable parameter @w : tensor<8x4xf32>
  func.func @forward(%x: tensor<8x4xf32> {ps.name = "x"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8x4xf32>
    %s = ps.reduce sum %w dims [0, 1] : tensor<8x4xf32> -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// A sum over samples plus another term: the count is 1, and @count counts only micro-batches.
// CHECK: ps.loss_average = "sum+micro-batch"
// CHECK-LABEL: func.func @count() {
// CHECK-NOT: loss.count
// CHECK: ps.accumulate @loss.micro_batches
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[S:.*]] = ps.reduce sum
// CHECK: %[[T:.*]] = ps.reduce sum
// CHECK: %[[BATCHES:.*]] = ps.read @loss.micro_batches
// CHECK: %[[F:.*]] = ps.div %{{.*}}, %[[BATCHES]]
// CHECK: %[[SHARE:.*]] = ps.mul %[[F]], %[[T]]
// CHECK: ps.add %[[S]], %[[SHARE]]
// CHECK: ps.write @loss.count
module {
  ps.variable parameter @w : tensor<8x4xf32>
  func.func @forward(%x: tensor<8x4xf32> {ps.name = "x"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8x4xf32>
    %q = ps.mul %w, %x : tensor<8x4xf32>
    %s = ps.reduce sum %q dims [0, 1] : tensor<8x4xf32> -> tensor<f32>
    %t = ps.reduce sum %w dims [0, 1] : tensor<8x4xf32> -> tensor<f32>
    %r = ps.add %s, %t : tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

// A mean over counted elements inside a nonlinear function. The average over micro-batches differs
// from the value of the whole batch.
// CHECK: ps.loss_average = "micro-batch", ps.uneven_loss
// CHECK-NOT: func.func @count
// CHECK-LABEL: func.func @micro_batch
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward(%m: tensor<8xf32> {ps.name = "m"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %m : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %c = ps.reduce sum %m dims [0] : tensor<8xf32> -> tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    %r = ps.exp %l : tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

// Twin: with a static count, a mean plus another term gives the same value either way.
// CHECK-NOT: ps.uneven_loss
// CHECK: ps.loss_average = "micro-batch"
// CHECK-NOT: ps.uneven_loss
// CHECK-LABEL: func.func @micro_batch
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward(%m: tensor<8xf32> {ps.name = "m"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %m : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %c = ps.constant dense<8.0> : tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    %t = ps.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    %r = ps.add %l, %t : tensor<f32>
    return %r : tensor<f32>
  }
}

// -----

// Twin: a loss whose count depends on a parameter is averaged over micro-batches.
// CHECK: ps.loss_average = "micro-batch"
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[LOSS:.*]] = ps.div
// CHECK: ps.accumulate @loss.sum, %[[LOSS]]
// CHECK: %[[ONE:.*]] = ps.constant {{.*}}dense<1.000000e+00>
// CHECK: ps.accumulate @loss.count, %[[ONE]]
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward() -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %w : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %c = ps.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// A count clamped to at least 1: the clamp applies to the total of @count, not to each micro-batch.
// CHECK: ps.loss_average = "step"
// CHECK: ps.variable accumulator @loss.counted
// CHECK-NOT: @loss.micro_batches
// CHECK-LABEL: func.func @count
// CHECK: %[[N:.*]] = ps.reduce sum
// CHECK: ps.accumulate @loss.counted, %[[N]]
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[S:.*]] = ps.reduce sum
// CHECK: %[[TOTAL:.*]] = ps.read @loss.counted
// CHECK: %[[COUNT:.*]] = ps.max %[[TOTAL]],
// CHECK: ps.write @loss.count, %[[COUNT]]
// CHECK: ps.accumulate @loss.sum, %[[S]]
module {
  ps.variable parameter @w : tensor<8xf32>
  func.func @forward(%m: tensor<8xf32> {ps.name = "m"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %q = ps.mul %w, %m : tensor<8xf32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %c = ps.reduce sum %m dims [0] : tensor<8xf32> -> tensor<f32>
    %one = ps.constant dense<1.0> : tensor<f32>
    %d = ps.max %c, %one : tensor<f32>
    %l = ps.div %s, %d : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// A count that depends on a buffer which training does not change, such as class weights.
// CHECK: ps.loss_average = "step"
// CHECK-LABEL: func.func @micro_batch
// CHECK: %[[C:.*]] = ps.reduce sum
// CHECK: ps.accumulate @loss.count, %[[C]]
module {
  ps.variable parameter @w : tensor<8xf32>
  ps.variable buffer @v : tensor<8xf32>
  func.func @forward(%m: tensor<8xf32> {ps.name = "m"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %v = ps.read @v : tensor<8xf32>
    %n = ps.mul %v, %m : tensor<8xf32>
    %q = ps.mul %w, %n : tensor<8xf32>
    %c = ps.reduce sum %n dims [0] : tensor<8xf32> -> tensor<f32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Twin: the model writes the buffer.
// CHECK: ps.loss_average = "micro-batch", ps.uneven_loss
module {
  ps.variable parameter @w : tensor<8xf32>
  ps.variable buffer @v : tensor<8xf32>
  func.func @forward(%m: tensor<8xf32> {ps.name = "m"}) -> tensor<f32> {
    %w = ps.read @w : tensor<8xf32>
    %v = ps.read @v : tensor<8xf32>
    %n = ps.mul %v, %m : tensor<8xf32>
    ps.write @v, %n : tensor<8xf32>
    %q = ps.mul %w, %n : tensor<8xf32>
    %c = ps.reduce sum %n dims [0] : tensor<8xf32> -> tensor<f32>
    %s = ps.reduce sum %q dims [0] : tensor<8xf32> -> tensor<f32>
    %l = ps.div %s, %c : tensor<f32>
    return %l : tensor<f32>
  }
}
