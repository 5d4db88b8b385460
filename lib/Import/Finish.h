// What is done to a module once its graph is built, by both importers.
#ifndef PARASHARD_LIB_IMPORT_FINISH_H
#define PARASHARD_LIB_IMPORT_FINISH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace parashard::import {

/// Ends `function`, at the builder's place, with `results`, which get these names.
void returnResults(mlir::OpBuilder &builder, mlir::func::FuncOp function, mlir::ValueRange results,
                   llvm::ArrayRef<std::string> names);

/// Removes ops that nothing reads; then variables that nothing reads and no file has (`transient`).
void removeDead(mlir::ModuleOp module);
/// `ps.key`: the ordinal of each op that draws random numbers.
void numberRandomOps(mlir::ModuleOp module);

} // namespace parashard::import

#endif
