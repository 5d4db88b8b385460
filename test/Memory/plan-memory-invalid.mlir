// RUN: ps-opt -ps-plan-memory -verify-diagnostics %s

ps.variable parameter @a : tensor<4xf32>
func.func @set(%x: tensor<4xf32>, %a: !ps.ref<tensor<4xf32>>) attributes {ps.class = "set"} {
  %0 = ps.exp %x : tensor<4xf32>
  ps.write %a, %0 : !ps.ref<tensor<4xf32>>
  return
}
func.func @use(%x: tensor<4xf32>) -> tensor<4xf32> attributes {ps.class = "use"} {
  %0 = ps.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
rank.program @p pp = 0 entry "step" {
  %x = rank.input "x" micro_batch 0 : tensor<4xf32>
  %a = ps.read @a : tensor<4xf32>
  // expected-error @+1 {{'rank.run' op writes variable 'a' before the last use of a value that was read from the variable; read the variable inside the class function}}
  rank.run @set (%x) variables [@a] : (tensor<4xf32>) -> ()
  %y = rank.run @use (%a) : (tensor<4xf32>) -> tensor<4xf32>
}
