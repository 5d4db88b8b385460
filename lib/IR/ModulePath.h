// What a location says about the module that an op came from.
#ifndef PARASHARD_LIB_IR_MODULEPATH_H
#define PARASHARD_LIB_IR_MODULEPATH_H

#include "mlir/IR/Location.h"
#include <optional>

namespace parashard::ps {

/// The module path that an op came from (its first NameLoc); nothing when it has none.
std::optional<llvm::StringRef> getModulePath(mlir::Location loc);
/// The block that a module path belongs to: up to its first list index
/// (`transformer.h.3.attn` is of `transformer.h.3`); empty when it is of none.
llvm::StringRef getBlockOfPath(llvm::StringRef path);
/// The name of the list that a block is of (`h` for `transformer.h.3`).
llvm::StringRef getListName(llvm::StringRef block);

} // namespace parashard::ps

#endif
