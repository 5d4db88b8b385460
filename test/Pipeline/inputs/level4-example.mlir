// A hand-written level-4 module: two equal layers (class h), a loss and one SGD step with dp = 2
// and two micro-batches.
module attributes {ps.level = #ps.level<scheduled>} {
  ps.mesh @mesh <"dp" = 2 : data>
  ps.variable parameter @h.0.w names ["h.0.w"] {ps.sharding = #ps.sharding<@mesh, [{}, {}]>} : tensor<8x8xf32>
  ps.variable parameter @h.1.w names ["h.1.w"] {ps.sharding = #ps.sharding<@mesh, [{}, {}]>} : tensor<8x8xf32>
  ps.variable gradient @h.0.w.grad of @h.0.w {ps.sharding = #ps.sharding<@mesh, [{}, {}], partial = {"dp": sum}>} : tensor<8x8xf32>
  ps.variable gradient @h.1.w.grad of @h.1.w {ps.sharding = #ps.sharding<@mesh, [{}, {}], partial = {"dp": sum}>} : tensor<8x8xf32>
  ps.variable accumulator @loss.sum {ps.sharding = #ps.sharding<@mesh, [], partial = {"dp": sum}>} : tensor<f32>
  ps.variable accumulator @loss.count {ps.sharding = #ps.sharding<@mesh, [], partial = {"dp": sum}>} : tensor<f32>
  ps.variable accumulator @loss {ps.sharding = #ps.sharding<@mesh, []>} : tensor<f32>
  ps.variable scalar @lr init dense<1.000000e-01> : tensor<f32> {ps.sharding = #ps.sharding<@mesh, []>} : tensor<f32>

  func.func @h.forward(%x: tensor<2x8xf32>, %w: !ps.ref<tensor<8x8xf32>>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
      attributes {ps.class = "h", ps.phase = #ps.phase<forward>, ps.saved = 1 : i64} {
    %0 = ps.read %w : !ps.ref<tensor<8x8xf32>>
    %1 = ps.contract %x [0, 1], %0 [2, 1] -> [0, 2] : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    %2 = ps.gelu tanh %1 : tensor<2x8xf32>
    return %2, %1 : tensor<2x8xf32>, tensor<2x8xf32>
  }
  func.func @loss.forward(%x: tensor<2x8xf32>, %sum: !ps.ref<tensor<f32>>, %count: !ps.ref<tensor<f32>>)
      attributes {ps.class = "loss", ps.phase = #ps.phase<forward>, ps.saved = 0 : i64} {
    %0 = ps.mul %x, %x : tensor<2x8xf32>
    %1 = ps.reduce sum %0 dims [0, 1] : tensor<2x8xf32> -> tensor<f32>
    ps.accumulate %sum, %1 : !ps.ref<tensor<f32>>
    %2 = ps.constant dense<2.000000e+00> : tensor<f32>
    ps.accumulate %count, %2 : !ps.ref<tensor<f32>>
    return
  }
  func.func @loss.backward_input(%x: tensor<2x8xf32>) -> tensor<2x8xf32>
      attributes {ps.class = "loss", ps.phase = #ps.phase<backward_input>, ps.saved = 0 : i64} {
    %0 = ps.add %x, %x : tensor<2x8xf32>
    return %0 : tensor<2x8xf32>
  }
  func.func @h.backward_input(%g: tensor<2x8xf32>, %pre: tensor<2x8xf32>, %w: !ps.ref<tensor<8x8xf32>>)
      -> (tensor<2x8xf32>, tensor<2x8xf32>)
      attributes {ps.class = "h", ps.phase = #ps.phase<backward_input>, ps.saved = 1 : i64} {
    %0 = ps.gelu_grad tanh %g, %pre : tensor<2x8xf32>
    %1 = ps.read %w : !ps.ref<tensor<8x8xf32>>
    %2 = ps.contract %0 [0, 2], %1 [2, 1] -> [0, 1] : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    return %2, %0 : tensor<2x8xf32>, tensor<2x8xf32>
  }
  func.func @h.backward_weight(%x: tensor<2x8xf32>, %g: tensor<2x8xf32>, %gw: !ps.ref<tensor<8x8xf32>>)
      attributes {ps.class = "h", ps.phase = #ps.phase<backward_weight>, ps.saved = 0 : i64} {
    %0 = ps.contract %g [0, 2], %x [0, 1] -> [2, 1] : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    ps.accumulate %gw, %0 : !ps.ref<tensor<8x8xf32>>
    return
  }
  func.func @scalars.update(%sum: tensor<f32>, %count: tensor<f32>, %loss: !ps.ref<tensor<f32>>) -> tensor<i1>
      attributes {ps.class = "scalars", ps.phase = #ps.phase<update>, ps.saved = 0 : i64} {
    %0 = ps.constant dense<0.000000e+00> : tensor<f32>
    %1 = ps.compare gt %count, %0 : tensor<f32> -> tensor<i1>
    %2 = ps.div %sum, %count : tensor<f32>
    %3 = ps.select %1, %2, %0 : tensor<i1>, tensor<f32>
    ps.write %loss, %3 : !ps.ref<tensor<f32>>
    return %1 : tensor<i1>
  }
  func.func @w.update(%g: tensor<8x8xf32>, %count: tensor<f32>, %ok: tensor<i1>, %w: !ps.ref<tensor<8x8xf32>>, %lr: !ps.ref<tensor<f32>>)
      attributes {ps.class = "w", ps.phase = #ps.phase<update>, ps.saved = 0 : i64} {
    %0 = ps.read %w : !ps.ref<tensor<8x8xf32>>
    %1 = ps.read %lr : !ps.ref<tensor<f32>>
    %2 = ps.broadcast %count dims [] : tensor<f32> -> tensor<8x8xf32>
    %3 = ps.div %g, %2 : tensor<8x8xf32>
    %4 = ps.broadcast %1 dims [] : tensor<f32> -> tensor<8x8xf32>
    %5 = ps.mul %3, %4 : tensor<8x8xf32>
    %6 = ps.sub %0, %5 : tensor<8x8xf32>
    ps.write %w, %6 if %ok : !ps.ref<tensor<8x8xf32>>
    return
  }

  rank.program @pp0 pp = 0 entry "step" {
    %mb0 = arith.constant 0 : i64
    %x0 = rank.input "x" micro_batch 0 : tensor<2x8xf32> of tensor<4x8xf32> as #ps.sharding<@mesh, [{"dp"}, {}]>
    %a0, %s0 = rank.run @h.forward segment 0 (%x0) variables [@h.0.w] : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    %b0, %t0 = rank.run @h.forward segment 1 (%a0) variables [@h.1.w] : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    rank.run @loss.forward segment 2 (%b0) variables [@loss.sum, @loss.count] : (tensor<2x8xf32>) -> ()
    %db0 = rank.run @loss.backward_input segment 2 (%b0) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %da0, %u0 = rank.run @h.backward_input segment 1 (%db0, %t0) variables [@h.1.w] : (tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    rank.run @h.backward_weight segment 1 (%a0, %u0) variables [@h.1.w.grad] : (tensor<2x8xf32>, tensor<2x8xf32>) -> ()
    %dx0, %v0 = rank.run @h.backward_input segment 0 (%da0, %s0) variables [@h.0.w] : (tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    rank.run @h.backward_weight segment 0 (%x0, %v0) variables [@h.0.w.grad] : (tensor<2x8xf32>, tensor<2x8xf32>) -> ()
    %mb1 = arith.constant 1 : i64
    %x1 = rank.input "x" micro_batch 1 : tensor<2x8xf32> of tensor<4x8xf32> as #ps.sharding<@mesh, [{"dp"}, {}]>
    %a1, %s1 = rank.run @h.forward segment 0 (%x1) variables [@h.0.w] : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    %b1, %t1 = rank.run @h.forward segment 1 (%a1) variables [@h.1.w] : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    rank.run @loss.forward segment 2 (%b1) variables [@loss.sum, @loss.count] : (tensor<2x8xf32>) -> ()
    %db1 = rank.run @loss.backward_input segment 2 (%b1) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %da1, %u1 = rank.run @h.backward_input segment 1 (%db1, %t1) variables [@h.1.w] : (tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    rank.run @h.backward_weight segment 1 (%a1, %u1) variables [@h.1.w.grad] : (tensor<2x8xf32>, tensor<2x8xf32>) -> ()
    %dx1, %v1 = rank.run @h.backward_input segment 0 (%da1, %s1) variables [@h.0.w] : (tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    rank.run @h.backward_weight segment 0 (%x1, %v1) variables [@h.0.w.grad] : (tensor<2x8xf32>, tensor<2x8xf32>) -> ()
    // The update: one all-reduce bucket, then one run per class of variables.
    %sum = ps.read @loss.sum : tensor<f32>
    %count = ps.read @loss.count : tensor<f32>
    %g0 = ps.read @h.0.w.grad : tensor<8x8xf32>
    %g1 = ps.read @h.1.w.grad : tensor<8x8xf32>
    %r:4, %token = rank.start "all_reduce" (%sum, %count, %g0, %g1) kind sum axes ["dp"] queue "dp"
        : (tensor<f32>, tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<f32>, tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>)
    rank.wait %token
    %ok = rank.run @scalars.update (%r#0, %r#1) variables [@loss] : (tensor<f32>, tensor<f32>) -> tensor<i1>
    rank.run @w.update (%r#2, %r#1, %ok) variables [@h.0.w, @lr] : (tensor<8x8xf32>, tensor<f32>, tensor<i1>) -> ()
    rank.run @w.update (%r#3, %r#1, %ok) variables [@h.1.w, @lr] : (tensor<8x8xf32>, tensor<f32>, tensor<i1>) -> ()
  }
}
