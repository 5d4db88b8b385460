// Declares the passes that form kernels.
#ifndef PARASHARD_LIB_FUSION_PASSES_TD
#define PARASHARD_LIB_FUSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def FusePass : Pass<"ps-fuse", "::mlir::ModuleOp"> {
  let summary = "groups the ops of class functions into kernels";
  let description = [{
    Ops of the lowering kinds Elementwise, Row and Movement that share one iteration space (rows x
    columns) become one `ps.fused`. Where possible, an op reads the source of a Movement op
    directly, as a strided view; otherwise, a kernel copies the view into a buffer. After the pass,
    a class function contains `ps.fused` ops, library ops, collectives, views that library ops read
    through, and variable accesses. The grouping itself changes no value. The options `biases` and
    `activations` may change how often a 16-bit sum is rounded.

    - `biases`: a bias that is added to a `ps.contract` becomes an operand of the contraction. The
      library may add the bias before it rounds the sum, or round before and after the addition.
    - `sums`: a bias gradient becomes a second result of the matmul that computes the weight
      gradient, if the bias gradient is the sum of an operand of that matmul, and no `ps.fused`
      computes this operand.
    - `float8`: matmuls read 8-bit tensors and their scales instead of the dequantized tensors.
    - `activations`: a tanh-GELU of a matmul's result becomes an epilogue of the matmul, and so does
      a multiplication of a matmul's result by the derivative of a tanh-GELU. The epilogue uses the
      f32 sums before they are rounded. This changes values, so the user must request this option.
  }];
  let options = [
    Option<"maxChunks", "max-chunks", "int64_t", /*default=*/"0",
           "maximum number of chunks into which a reduction over rows is split; 0: chunks of 128 "
           "rows, without a maximum">,
    Option<"biases", "biases", "bool", /*default=*/"false",
           "fuse bias additions into matmuls, for targets that support this">,
    Option<"activations", "activations", "bool", /*default=*/"false",
           "fuse tanh-GELUs and their derivatives into matmul epilogues, for targets that support "
           "this">,
    Option<"sums", "sums", "bool", /*default=*/"false",
           "fuse bias gradients into matmuls, for targets that support this">,
    Option<"float8", "float8", "bool", /*default=*/"false",
           "fuse dequantization into matmuls of 8-bit floats, for targets that support this">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def TransposeAttentionPass : Pass<"ps-transpose-attention", "::mlir::ModuleOp"> {
  let summary = "lets attention write its results in the order in which they are read";
  let description = [{
    Runs before `ps-outline-segments`. Models compute attention on [B, H, T, D], but their matmuls
    read rows of features, [B, T, H, D]. If a transpose of an attention's result, or of a cotangent
    that its gradient computes, has the order [B, T, H, D], the op becomes `transposed` and writes
    this order. Other users read the result through a transpose, which needs no buffer if they read
    strides. No value changes.
  }];
}

def DeferSumsPass : Pass<"ps-defer-sums", "::mlir::ModuleOp"> {
  let summary = "moves bias gradients that no fused kernel computes to the weight-gradient matmuls";
  let description = [{
    Runs before `ps-outline-segments`, for targets whose matmuls compute bias gradients
    (`ps-fuse{sums=true}`). By default, a bias gradient has the phase `backward_input`, because the
    `ps.fused` that computes the cotangent can also sum the cotangent. If no `ps.fused` computes the
    cotangent, because a library op computes it or the function receives it, the sum and its
    accumulation move to the phase `backward_weight` of the same segment. The move requires that the
    matmul of the weight gradient can compute the sum. No value changes.

    With `activations`, the cotangent of a GELU's input counts as computed by a matmul, as with
    `ps-fuse{activations}`.
  }];
  let options = [
    Option<"activations", "activations", "bool", /*default=*/"false",
           "assume that ps-fuse{activations} fuses GELU derivatives into matmul epilogues">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def StartCollectivesPass : Pass<"ps-start-collectives", "::mlir::ModuleOp"> {
  let summary = "starts collectives of class functions early and waits for them late";
  let description = [{
    Moves independent matmuls, such as those of weight gradients, between a collective and the first
    op that uses its result, until the ops in between take at least as long as the collective. If a
    compute op is then in between, adds a `ps.wait` for the collective before the op that uses its
    result. The estimated times are based on the cost interface and on the rates of the cluster
    (`ps.cluster`).

    A collective and one contraction are split into chunks along their outermost dim (`ps.chunks`),
    if the two together take less time in chunks. The contraction computes the operand of an
    `all_reduce` or `reduce_scatter`, or is the first user of the result of an `all_gather`. One
    chunk is multiplied while another chunk is in transit. No value changes.

    In a function that writes a variable (`ps.write`), no matmul is moved or split, but collectives
    may still start before other ops. If the cluster's `overlap_slowdown` is 2 or more, as in the
    preset `cpu-mpi`, nothing changes unless `chunks` is set.
  }];
  let options = [
    Option<"chunks", "chunks", "int64_t", /*default=*/"0",
           "number of chunks into which collectives are split if possible; collectives then start "
           "early even where the cost model expects no overlap. 0: the cost model chooses">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

#endif
