// Declares the passes that form kernels.
#ifndef PARASHARD_LIB_FUSION_PASSES_TD
#define PARASHARD_LIB_FUSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def FusePass : Pass<"ps-fuse", "::mlir::ModuleOp"> {
  let summary = "groups the ops of class functions into kernels";
  let description = [{
    Elementwise, Row and Movement ops that fit one space of rows x columns become one `ps.fused`.
    Movement ops are read through as strided views where possible, and copied otherwise. After the
    pass, a class function holds `ps.fused` ops, library ops, collectives, views that library ops
    read through, and variable accesses. The grouping changes no value.

    - `biases`: a bias that is added to a `ps.contract` becomes its operand. The matmul adds the
      bias before it rounds.
    - `sums`: a bias gradient becomes a second result of the matmul that computes the weight
      gradient, if the bias gradient is the sum of an operand of that matmul and no kernel computes
      this operand.
    - `float8`: matmuls of dequantized tensors read the 8-bit numbers.
    - `activations`: a matmul whose result goes to a tanh-GELU computes the GELU. A matmul whose
      result is multiplied by the derivative of a tanh-GELU does this multiplication. These matmuls
      use the sum before rounding, which changes values; therefore the user must request this
      option.
  }];
  let options = [
    Option<"mostChunks", "most-chunks", "int64_t", /*default=*/"0",
           "maximum number of chunks into which a reduction is split; "
           "0: reductions over rows use chunks of 128 rows">,
    Option<"biases", "biases", "bool", /*default=*/"false",
           "fuse bias additions into matmuls, for targets that support this">,
    Option<"activations", "activations", "bool", /*default=*/"false",
           "fuse GELUs and their derivatives into matmuls, for targets that support this">,
    Option<"sums", "sums", "bool", /*default=*/"false",
           "fuse bias gradients into matmuls, for targets that support this">,
    Option<"float8", "float8", "bool", /*default=*/"false",
           "use fp8 matmuls, for targets that support them">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def DeferSumsPass : Pass<"ps-defer-sums", "::mlir::ModuleOp"> {
  let summary = "moves bias gradients to the matmuls that read the same cotangents";
  let description = [{
    Runs before `ps-outline-segments`, for targets whose matmuls compute bias gradients
    (`ps-fuse{sums=true}`). By default, a bias gradient has the phase `backward_input`, since the
    kernel that computes the cotangent also sums it. If no kernel computes the cotangent, and the
    matmul of the weight gradient can compute the sum, then the sum and its accumulation move to the
    phase `backward_weight`, into the run of that matmul. No value changes.

    With `activations`, as in `ps-fuse`, matmuls compute the cotangents of the inputs of GELUs.
  }];
  let options = [
    Option<"activations", "activations", "bool", /*default=*/"false",
           "assume that ps-fuse{activations} will fuse GELU derivatives into matmuls">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def StartCollectivesPass : Pass<"ps-start-collectives", "::mlir::ModuleOp"> {
  let summary = "starts collectives of class functions early and waits for them late";
  let description = [{
    Starts a collective at its position and waits for it (`ps.wait`) before the first op that uses
    its result, if some op computes in between. Matmuls that the collective does not depend on, and
    that do not depend on it, such as those of weight gradients, move in between, until their time
    covers the collective, by the cost interface and the rates of the target.

    Some contractions are split into chunks along their outermost dim together with a collective
    (`ps.chunks`), if both take less time in chunks: a contraction that computes the operand of an
    `all_reduce` or `reduce_scatter`, or that is the first user of the result of an `all_gather`.
    Chunk i + 1 is multiplied while chunk i is in transit. No value changes.

    Ops of functions that write variables do not move. On targets whose own cores communicate
    (CPUs), nothing changes unless `chunks` is set.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "target whose rates are used: begins with cpu or cuda">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"0",
           "start all collectives early, and split where possible into this number of chunks "
           "(1: never split); 0: decide by cost">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

#endif
