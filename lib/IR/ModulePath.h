// Declares lookups of the torch module that an op comes from. The op's location holds the module's
// path, such as `transformer.h.3.attn`.
#ifndef PARASHARD_LIB_IR_MODULEPATH_H
#define PARASHARD_LIB_IR_MODULEPATH_H

#include "mlir/IR/Location.h"
#include <optional>

namespace parashard::ir {

/// Returns the module path in a location (its first NameLoc), or nullopt.
std::optional<llvm::StringRef> getModulePath(mlir::Location loc);
/// Returns the block of a module path: the path up to its first list index. Example:
/// `transformer.h.3.attn` gives `transformer.h.3`. Skips an index at the start of the path, because
/// its list has no name: `0.layers.2.fc` gives `0.layers.2`. Returns "" if the path has no other
/// index.
llvm::StringRef getBlockOfPath(llvm::StringRef path);
/// Returns the name of the list that contains a block. Example: `transformer.h.3` gives `h`.
llvm::StringRef getListName(llvm::StringRef block);

} // namespace parashard::ir

#endif
