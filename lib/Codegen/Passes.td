// The passes of code generation that stay in MLIR.
#ifndef PARASHARD_LIB_CODEGEN_PASSES_TD
#define PARASHARD_LIB_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def FusePass : Pass<"ps-fuse", "::mlir::ModuleOp"> {
  let summary = "groups the ops of class functions into kernels";
  let description = [{
    Elementwise, Row and Movement ops that fit one space of rows x columns become one `ps.fused`; movements are
    read through as strided views where that is possible and copied where not. What remains in a class
    function is `ps.fused`, library ops, collectives, views that library ops read through, and variable
    accesses. No op's value depends on the grouping.
  }];
  let options = [
    Option<"mostChunks", "most-chunks", "int64_t", /*default=*/"0",
           "into how many chunks a sum is cut at most, whose sums are added up after: one over rows, or a long one over columns; 0: one over rows into chunks of 128">,
  ];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

#endif
