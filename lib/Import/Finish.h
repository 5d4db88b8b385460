// Declares the last steps of an import, which both importers share.
#ifndef PARASHARD_LIB_IMPORT_FINISH_H
#define PARASHARD_LIB_IMPORT_FINISH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace parashard::import {

/// Adds the return of `results` at the builder's insertion point. Sets the function's type and the
/// names of its results.
void returnResults(mlir::OpBuilder &builder, mlir::func::FuncOp function, mlir::ValueRange results,
                   llvm::ArrayRef<std::string> names);

/// Removes unused ops, then unused variables that weight files do not contain (`transient`).
void removeDead(mlir::ModuleOp module);
/// Numbers the random ops from 0: sets `ps.key` on each dropout, and on each attention with
/// dropout.
void numberRandomOps(mlir::ModuleOp module);

} // namespace parashard::import

#endif
