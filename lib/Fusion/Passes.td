// The passes that form kernels.
#ifndef PARASHARD_LIB_FUSION_PASSES_TD
#define PARASHARD_LIB_FUSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def FusePass : Pass<"ps-fuse", "::mlir::ModuleOp"> {
  let summary = "groups the ops of class functions into kernels";
  let description = [{
    Elementwise, Row and Movement ops that fit one space of rows x columns become one `ps.fused`; movements are
    read through as strided views where that is possible and copied where not. What remains in a class
    function is `ps.fused`, library ops, collectives, views that library ops read through, and variable
    accesses. No op's value depends on the grouping.

    With `biases`, a bias that is added to a `ps.contract` becomes an operand of it: the matmul adds
    it by itself, before it rounds. With `sums`, the gradient of a bias, where it is the sum of what the matmul of its
    weight's gradient reads and no kernel makes, becomes a second result of that matmul. With `float8`, matmuls of
    dequantized tensors are of the 8-bit numbers.

    With `activations`, a GELU by the tanh formula that is taken of a matmul becomes what the matmul yields, and a matmul that is
    multiplied by the derivative of one does that by itself. Both are then of the sum before it is rounded: here a value does depend
    on it, so it is for a user to ask for.
  }];
  let options = [
    Option<"mostChunks", "most-chunks", "int64_t", /*default=*/"0",
           "into how many chunks a sum is cut at most, whose sums are added up after: one over rows, or a long one over columns; 0: one over rows into chunks of 128">,
    Option<"biases", "biases", "bool", /*default=*/"false", "matmuls add biases, for targets whose matmuls do">,
    Option<"activations", "activations", "bool", /*default=*/"false", "matmuls compute GELUs and multiply by their derivatives, for targets whose matmuls do">,
    Option<"sums", "sums", "bool", /*default=*/"false", "matmuls sum operands, for targets whose matmuls do">,
    Option<"float8", "float8", "bool", /*default=*/"false", "matmuls multiply 8-bit floats, for targets whose matmuls do">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def DeferSumsPass : Pass<"ps-defer-sums", "::mlir::ModuleOp"> {
  let summary = "sums of cotangents stand where matmuls read these";
  let description = [{
    For targets whose matmuls sum operands (`ps-fuse{sums=true}`), in front of `ps-outline-segments`: the gradient of a bias is of the
    phase `backward_input`, as kernels that make a cotangent add it up on the way. Where none makes it, and the matmul of the weight's
    gradient can, the sum and its accumulation become of the phase `backward_weight`, of that matmul's run. No value depends on it.
    With `activations`, as of `ps-fuse`, matmuls make the cotangents of what GELUs are taken of.
  }];
  let options = [
    Option<"activations", "activations", "bool", /*default=*/"false", "matmuls will multiply by the derivatives of GELUs">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def StartCollectivesPass : Pass<"ps-start-collectives", "::mlir::ModuleOp"> {
  let summary = "lets collectives of class functions run beside what does not need them";
  let description = [{
    A collective is started where it stands and waited for (`ps.wait`) in front of the first op that uses its result, where
    anything computes between the two. Matmuls that depend on neither, such as that of a weight's gradient, move there, until
    they take as long as it does by the cost interface and the figures of the target.

    A contraction that makes what an all_reduce or reduce_scatter is given, and one that is the first to use what an
    all_gather yields, are cut into chunks along their slowest dim together with it (`ps.chunks`) where both in
    chunks take less time: chunk i + 1 is multiplied while chunk i is under way. No value depends on it. Ops of functions
    that write variables stay where they are. Nothing happens where the target's own cores communicate (CPUs), unless
    `chunks` asks for it.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"", "whose figures are used: cpu or cuda, and what follows">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"0",
           "start all early, and cut everything that can be cut into so many chunks, nothing with 1; 0: as the cost says">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

#endif
