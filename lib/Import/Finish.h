// Finishes a module after its graph has been built. Both importers share these functions.
#ifndef PARASHARD_LIB_IMPORT_FINISH_H
#define PARASHARD_LIB_IMPORT_FINISH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace parashard::import {

/// Ends `function`, at the builder's insertion point, with `results`, and names the results.
void returnResults(mlir::OpBuilder &builder, mlir::func::FuncOp function, mlir::ValueRange results,
                   llvm::ArrayRef<std::string> names);

/// Removes unused ops. Then removes unused variables that are not in the file (`transient`).
void removeDead(mlir::ModuleOp module);
/// Sets `ps.key`, the ordinal of each op that draws random numbers.
void numberRandomOps(mlir::ModuleOp module);

} // namespace parashard::import

#endif
