// The GPT of gpt.mlir with one projection for query, key and value.
  ps.variable parameter @"wte.weight" names ["wte.weight"] : tensor<50x48xf32>
  ps.variable parameter @"wpe.weight" names ["wpe.weight"] : tensor<8x48xf32>
  ps.variable parameter @"h.0.ln_1.weight" names ["h.0.ln_1.weight"] : tensor<48xf32>
  ps.variable parameter @"h.0.ln_1.bias" names ["h.0.ln_1.bias"] : tensor<48xf32>
  ps.variable parameter @"h.0.attn.c_attn.weight" names ["h.0.attn.c_attn.weight"] : tensor<144x48xf32>
  ps.variable parameter @"h.0.attn.c_attn.bias" names ["h.0.attn.c_attn.bias"] : tensor<144xf32>
  ps.variable parameter @"h.0.attn.out.weight" names ["h.0.attn.out.weight"] : tensor<48x48xf32>
  ps.variable parameter @"h.0.attn.out.bias" names ["h.0.attn.out.bias"] : tensor<48xf32>
  ps.variable parameter @"h.0.ln_2.weight" names ["h.0.ln_2.weight"] : tensor<48xf32>
  ps.variable parameter @"h.0.ln_2.bias" names ["h.0.ln_2.bias"] : tensor<48xf32>
  ps.variable parameter @"h.0.mlp.up.weight" names ["h.0.mlp.up.weight"] : tensor<192x48xf32>
  ps.variable parameter @"h.0.mlp.up.bias" names ["h.0.mlp.up.bias"] : tensor<192xf32>
  ps.variable parameter @"h.0.mlp.down.weight" names ["h.0.mlp.down.weight"] : tensor<48x192xf32>
  ps.variable parameter @"h.0.mlp.down.bias" names ["h.0.mlp.down.bias"] : tensor<48xf32>
  ps.variable parameter @"ln_f.weight" names ["ln_f.weight"] : tensor<48xf32>
  ps.variable parameter @"ln_f.bias" names ["ln_f.bias"] : tensor<48xf32>
  func.func @forward(%ids: tensor<4x8xi64> {ps.name = "ids"}, %labels: tensor<4x8xi64> {ps.name = "labels"}) -> (tensor<f32> {ps.name = "loss"}, tensor<4x8x50xf32> {ps.name = "logits"}) {
    %1 = ps.read @"wte.weight" : tensor<50x48xf32>
    %2 = ps.embedding %1, %ids : tensor<50x48xf32>, tensor<4x8xi64> -> tensor<4x8x48xf32>
    %3 = ps.read @"wpe.weight" : tensor<8x48xf32>
    %4 = ps.iota dim 0 : tensor<8xi64>
    %5 = ps.embedding %3, %4 : tensor<8x48xf32>, tensor<8xi64> -> tensor<8x48xf32>
    %6 = ps.broadcast %5 dims [1, 2] : tensor<8x48xf32> -> tensor<4x8x48xf32>
    %7 = ps.add %2, %6 : tensor<4x8x48xf32>
    %8, %9 = ps.layer_norm %7 epsilon 1.0e-5 : tensor<4x8x48xf32> -> tensor<4x8x48xf32>, tensor<4x8xf32>
    %10 = ps.read @"h.0.ln_1.weight" : tensor<48xf32>
    %11 = ps.broadcast %10 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %12 = ps.mul %8, %11 : tensor<4x8x48xf32>
    %13 = ps.read @"h.0.ln_1.bias" : tensor<48xf32>
    %14 = ps.broadcast %13 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %15 = ps.add %12, %14 : tensor<4x8x48xf32>
    %16 = ps.read @"h.0.attn.c_attn.weight" : tensor<144x48xf32>
    %17 = ps.contract %15 [0, 1, 2], %16 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<144x48xf32>) -> tensor<4x8x144xf32>
    %18 = ps.read @"h.0.attn.c_attn.bias" : tensor<144xf32>
    %19 = ps.broadcast %18 dims [2] : tensor<144xf32> -> tensor<4x8x144xf32>
    %20 = ps.add %17, %19 : tensor<4x8x144xf32>
    %21 = ps.slice %20 [0, 0, 0] to [4, 8, 48] by [1, 1, 1] : tensor<4x8x144xf32> -> tensor<4x8x48xf32>
    %22 = ps.slice %20 [0, 0, 48] to [4, 8, 96] by [1, 1, 1] : tensor<4x8x144xf32> -> tensor<4x8x48xf32>
    %23 = ps.slice %20 [0, 0, 96] to [4, 8, 144] by [1, 1, 1] : tensor<4x8x144xf32> -> tensor<4x8x48xf32>
    %24 = ps.reshape %21 : tensor<4x8x48xf32> -> tensor<4x8x6x8xf32>
    %25 = ps.transpose %24 [0, 2, 1, 3] : tensor<4x8x6x8xf32> -> tensor<4x6x8x8xf32>
    %26 = ps.reshape %22 : tensor<4x8x48xf32> -> tensor<4x8x6x8xf32>
    %27 = ps.transpose %26 [0, 2, 1, 3] : tensor<4x8x6x8xf32> -> tensor<4x6x8x8xf32>
    %28 = ps.reshape %23 : tensor<4x8x48xf32> -> tensor<4x8x6x8xf32>
    %29 = ps.transpose %28 [0, 2, 1, 3] : tensor<4x8x6x8xf32> -> tensor<4x6x8x8xf32>
    %30, %31 = ps.attention %25, %27, %29 causal scale 0.125 : (tensor<4x6x8x8xf32>, tensor<4x6x8x8xf32>, tensor<4x6x8x8xf32>) -> (tensor<4x6x8x8xf32>, tensor<4x6x8xf32>)
    %32 = ps.transpose %30 [0, 2, 1, 3] : tensor<4x6x8x8xf32> -> tensor<4x8x6x8xf32>
    %33 = ps.reshape %32 : tensor<4x8x6x8xf32> -> tensor<4x8x48xf32>
    %34 = ps.read @"h.0.attn.out.weight" : tensor<48x48xf32>
    %35 = ps.contract %33 [0, 1, 2], %34 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<48x48xf32>) -> tensor<4x8x48xf32>
    %36 = ps.read @"h.0.attn.out.bias" : tensor<48xf32>
    %37 = ps.broadcast %36 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %38 = ps.add %35, %37 : tensor<4x8x48xf32>
    %39 = ps.add %7, %38 : tensor<4x8x48xf32>
    %40, %41 = ps.layer_norm %39 epsilon 1.0e-5 : tensor<4x8x48xf32> -> tensor<4x8x48xf32>, tensor<4x8xf32>
    %42 = ps.read @"h.0.ln_2.weight" : tensor<48xf32>
    %43 = ps.broadcast %42 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %44 = ps.mul %40, %43 : tensor<4x8x48xf32>
    %45 = ps.read @"h.0.ln_2.bias" : tensor<48xf32>
    %46 = ps.broadcast %45 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %47 = ps.add %44, %46 : tensor<4x8x48xf32>
    %48 = ps.read @"h.0.mlp.up.weight" : tensor<192x48xf32>
    %49 = ps.contract %47 [0, 1, 2], %48 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<192x48xf32>) -> tensor<4x8x192xf32>
    %50 = ps.read @"h.0.mlp.up.bias" : tensor<192xf32>
    %51 = ps.broadcast %50 dims [2] : tensor<192xf32> -> tensor<4x8x192xf32>
    %52 = ps.add %49, %51 : tensor<4x8x192xf32>
    %53 = ps.gelu tanh %52 : tensor<4x8x192xf32>
    %54 = ps.read @"h.0.mlp.down.weight" : tensor<48x192xf32>
    %55 = ps.contract %53 [0, 1, 2], %54 [3, 2] -> [0, 1, 3] : (tensor<4x8x192xf32>, tensor<48x192xf32>) -> tensor<4x8x48xf32>
    %56 = ps.read @"h.0.mlp.down.bias" : tensor<48xf32>
    %57 = ps.broadcast %56 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %58 = ps.add %55, %57 : tensor<4x8x48xf32>
    %59 = ps.add %39, %58 : tensor<4x8x48xf32>
    %60, %61 = ps.layer_norm %59 epsilon 1.0e-5 : tensor<4x8x48xf32> -> tensor<4x8x48xf32>, tensor<4x8xf32>
    %62 = ps.read @"ln_f.weight" : tensor<48xf32>
    %63 = ps.broadcast %62 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %64 = ps.mul %60, %63 : tensor<4x8x48xf32>
    %65 = ps.read @"ln_f.bias" : tensor<48xf32>
    %66 = ps.broadcast %65 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %67 = ps.add %64, %66 : tensor<4x8x48xf32>
    %68 = ps.contract %67 [0, 1, 2], %1 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<50x48xf32>) -> tensor<4x8x50xf32>
    %69, %70 = ps.cross_entropy %68, %labels ignore -100 : tensor<4x8x50xf32>, tensor<4x8xi64> -> tensor<4x8xf32>
    %71 = ps.reduce sum %69 dims [0, 1] : tensor<4x8xf32> -> tensor<f32>
    %72 = ps.constant dense<-100> : tensor<4x8xi64>
    %73 = ps.compare ne %labels, %72 : tensor<4x8xi64> -> tensor<4x8xi1>
    %74 = ps.convert %73 : tensor<4x8xi1> -> tensor<4x8xf32>
    %75 = ps.reduce sum %74 dims [0, 1] : tensor<4x8xf32> -> tensor<f32>
    %76 = ps.div %71, %75 : tensor<f32>
    return %76, %68 : tensor<f32>, tensor<4x8x50xf32>
  }
