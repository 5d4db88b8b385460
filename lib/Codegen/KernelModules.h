// Divides a module of kernels into one module per kernel.
#ifndef PARASHARD_LIB_CODEGEN_KERNELMODULES_H
#define PARASHARD_LIB_CODEGEN_KERNELMODULES_H

#include "mlir/IR/BuiltinOps.h"

namespace parashard::codegen {

/// Moves each function of `module` that has a body (llvm.func) into a module of its own, together
/// with the internal globals that it uses, and that no other function uses. `module` keeps a
/// declaration of the function. The new module declares the other globals that the function uses.
/// Returns a module that contains the new modules, in the order of their functions. Equal kernels
/// of two programs give equal modules if the names of the functions are equal.
mlir::OwningOpRef<mlir::ModuleOp> divideKernels(mlir::ModuleOp module);

} // namespace parashard::codegen

#endif
