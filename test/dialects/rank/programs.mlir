// RUN: ps-opt %s | ps-opt | FileCheck %s

// Each op parses back from its printed form.
ps.mesh @mesh <"dp" = 2 : data>
ps.variable parameter @w : tensor<4xf32>

func.func @h.forward(%x: tensor<4xf32>, %w: !ps.ref<tensor<4xf32>>, %key: i64, %mb: i64) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// CHECK-LABEL: rank.program @pp0 pp = 0 entry "forward" {
rank.program @pp0 pp = 0 entry "forward" {
  %mb = arith.constant 1 : i64
  // CHECK: %[[X:.*]] = rank.input "x" micro_batch 1 {ps.cotangent = "y"} : tensor<4xf32> of tensor<8xf32> as <@mesh, [{"dp"}]>
  %x = rank.input "x" micro_batch 1 {ps.cotangent = "y"} : tensor<4xf32> of tensor<8xf32> as #ps.sharding<@mesh, [{"dp"}]>
  // CHECK: %[[Y:.*]] = rank.run @h.forward segment 3 micro_batch %{{[a-z0-9_]+}}(%[[X]]) variables [@w] keys [17] queues ["tp"] : (tensor<4xf32>) -> tensor<4xf32>
  %y = rank.run @h.forward segment 3 micro_batch %mb (%x) variables [@w] keys [17] queues ["tp"] : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: rank.section "backward"
  rank.section "backward"
  // CHECK: %[[R:.*]]:2, %[[T:.*]] = rank.start "all_gather"(%[[X]], %[[Y]]) axes ["dp"] dims [0, 0] queue "dp" : (tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %r:2, %t = rank.start "all_gather" (%x, %y) axes ["dp"] dims [0, 0] queue "dp" : (tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: rank.wait %[[T]]
  rank.wait %t
  // CHECK: rank.output "y" micro_batch 1 %[[R]]#1 : tensor<8xf32>
  rank.output "y" micro_batch 1 %r#1 : tensor<8xf32>
}
