// The forward of a one-layer GPT at level imported: 6 heads, tied embedding of 50 rows.
  ps.variable parameter @"wte.weight" names ["wte.weight"] : tensor<50x48xf32>
  ps.variable parameter @"wpe.weight" names ["wpe.weight"] : tensor<8x48xf32>
  ps.variable parameter @"h.0.ln_1.weight" names ["h.0.ln_1.weight"] : tensor<48xf32>
  ps.variable parameter @"h.0.ln_1.bias" names ["h.0.ln_1.bias"] : tensor<48xf32>
  ps.variable parameter @"h.0.attn.q.weight" names ["h.0.attn.q.weight"] : tensor<48x48xf32>
  ps.variable parameter @"h.0.attn.q.bias" names ["h.0.attn.q.bias"] : tensor<48xf32>
  ps.variable parameter @"h.0.attn.k.weight" names ["h.0.attn.k.weight"] : tensor<48x48xf32>
  ps.variable parameter @"h.0.attn.k.bias" names ["h.0.attn.k.bias"] : tensor<48xf32>
  ps.variable parameter @"h.0.attn.v.weight" names ["h.0.attn.v.weight"] : tensor<48x48xf32>
  ps.variable parameter @"h.0.attn.v.bias" names ["h.0.attn.v.bias"] : tensor<48xf32>
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
    %16 = ps.read @"h.0.attn.q.weight" : tensor<48x48xf32>
    %17 = ps.contract %15 [0, 1, 2], %16 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<48x48xf32>) -> tensor<4x8x48xf32>
    %18 = ps.read @"h.0.attn.q.bias" : tensor<48xf32>
    %19 = ps.broadcast %18 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %20 = ps.add %17, %19 : tensor<4x8x48xf32>
    %21 = ps.read @"h.0.attn.k.weight" : tensor<48x48xf32>
    %22 = ps.contract %15 [0, 1, 2], %21 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<48x48xf32>) -> tensor<4x8x48xf32>
    %23 = ps.read @"h.0.attn.k.bias" : tensor<48xf32>
    %24 = ps.broadcast %23 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %25 = ps.add %22, %24 : tensor<4x8x48xf32>
    %26 = ps.read @"h.0.attn.v.weight" : tensor<48x48xf32>
    %27 = ps.contract %15 [0, 1, 2], %26 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<48x48xf32>) -> tensor<4x8x48xf32>
    %28 = ps.read @"h.0.attn.v.bias" : tensor<48xf32>
    %29 = ps.broadcast %28 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %30 = ps.add %27, %29 : tensor<4x8x48xf32>
    %31 = ps.reshape %20 : tensor<4x8x48xf32> -> tensor<4x8x6x8xf32>
    %32 = ps.transpose %31 [0, 2, 1, 3] : tensor<4x8x6x8xf32> -> tensor<4x6x8x8xf32>
    %33 = ps.reshape %25 : tensor<4x8x48xf32> -> tensor<4x8x6x8xf32>
    %34 = ps.transpose %33 [0, 2, 1, 3] : tensor<4x8x6x8xf32> -> tensor<4x6x8x8xf32>
    %35 = ps.reshape %30 : tensor<4x8x48xf32> -> tensor<4x8x6x8xf32>
    %36 = ps.transpose %35 [0, 2, 1, 3] : tensor<4x8x6x8xf32> -> tensor<4x6x8x8xf32>
    %37, %38 = ps.attention %32, %34, %36 causal scale 0.125 : (tensor<4x6x8x8xf32>, tensor<4x6x8x8xf32>, tensor<4x6x8x8xf32>) -> (tensor<4x6x8x8xf32>, tensor<4x6x8xf32>)
    %39 = ps.transpose %37 [0, 2, 1, 3] : tensor<4x6x8x8xf32> -> tensor<4x8x6x8xf32>
    %40 = ps.reshape %39 : tensor<4x8x6x8xf32> -> tensor<4x8x48xf32>
    %41 = ps.read @"h.0.attn.out.weight" : tensor<48x48xf32>
    %42 = ps.contract %40 [0, 1, 2], %41 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<48x48xf32>) -> tensor<4x8x48xf32>
    %43 = ps.read @"h.0.attn.out.bias" : tensor<48xf32>
    %44 = ps.broadcast %43 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %45 = ps.add %42, %44 : tensor<4x8x48xf32>
    %46 = ps.add %7, %45 : tensor<4x8x48xf32>
    %47, %48 = ps.layer_norm %46 epsilon 1.0e-5 : tensor<4x8x48xf32> -> tensor<4x8x48xf32>, tensor<4x8xf32>
    %49 = ps.read @"h.0.ln_2.weight" : tensor<48xf32>
    %50 = ps.broadcast %49 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %51 = ps.mul %47, %50 : tensor<4x8x48xf32>
    %52 = ps.read @"h.0.ln_2.bias" : tensor<48xf32>
    %53 = ps.broadcast %52 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %54 = ps.add %51, %53 : tensor<4x8x48xf32>
    %55 = ps.read @"h.0.mlp.up.weight" : tensor<192x48xf32>
    %56 = ps.contract %54 [0, 1, 2], %55 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<192x48xf32>) -> tensor<4x8x192xf32>
    %57 = ps.read @"h.0.mlp.up.bias" : tensor<192xf32>
    %58 = ps.broadcast %57 dims [2] : tensor<192xf32> -> tensor<4x8x192xf32>
    %59 = ps.add %56, %58 : tensor<4x8x192xf32>
    %60 = ps.gelu tanh %59 : tensor<4x8x192xf32>
    %61 = ps.read @"h.0.mlp.down.weight" : tensor<48x192xf32>
    %62 = ps.contract %60 [0, 1, 2], %61 [3, 2] -> [0, 1, 3] : (tensor<4x8x192xf32>, tensor<48x192xf32>) -> tensor<4x8x48xf32>
    %63 = ps.read @"h.0.mlp.down.bias" : tensor<48xf32>
    %64 = ps.broadcast %63 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %65 = ps.add %62, %64 : tensor<4x8x48xf32>
    %66 = ps.add %46, %65 : tensor<4x8x48xf32>
    %67, %68 = ps.layer_norm %66 epsilon 1.0e-5 : tensor<4x8x48xf32> -> tensor<4x8x48xf32>, tensor<4x8xf32>
    %69 = ps.read @"ln_f.weight" : tensor<48xf32>
    %70 = ps.broadcast %69 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %71 = ps.mul %67, %70 : tensor<4x8x48xf32>
    %72 = ps.read @"ln_f.bias" : tensor<48xf32>
    %73 = ps.broadcast %72 dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
    %74 = ps.add %71, %73 : tensor<4x8x48xf32>
    %75 = ps.contract %74 [0, 1, 2], %1 [3, 2] -> [0, 1, 3] : (tensor<4x8x48xf32>, tensor<50x48xf32>) -> tensor<4x8x50xf32>
    %76, %77 = ps.cross_entropy %75, %labels ignore -100 : tensor<4x8x50xf32>, tensor<4x8xi64> -> tensor<4x8xf32>
    %78 = ps.reduce sum %76 dims [0, 1] : tensor<4x8xf32> -> tensor<f32>
    %79 = ps.constant dense<-100> : tensor<4x8xi64>
    %80 = ps.compare ne %labels, %79 : tensor<4x8xi64> -> tensor<4x8xi1>
    %81 = ps.convert %80 : tensor<4x8xi1> -> tensor<4x8xf32>
    %82 = ps.reduce sum %81 dims [0, 1] : tensor<4x8xf32> -> tensor<f32>
    %83 = ps.div %78, %82 : tensor<f32>
    return %83, %75 : tensor<f32>, tensor<4x8x50xf32>
  }
