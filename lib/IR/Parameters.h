// Declares lookups of the parameters of a module.
#ifndef PARASHARD_LIB_IR_PARAMETERS_H
#define PARASHARD_LIB_IR_PARAMETERS_H

#include "dialects/ps/Ps.h"

namespace parashard::ir {

/// Returns the parameters in module order.
llvm::SmallVector<ps::VariableOp> getParameters(mlir::ModuleOp module);

/// Returns true if a glob (shared/Globs.h) matches the symbol or a name of a variable.
bool matchesVariable(llvm::StringRef glob, ps::VariableOp variable);

/// Returns true if a glob matches any parameter.
bool matchesParameter(llvm::StringRef glob, mlir::ModuleOp module);

/// Returns "; the nearest names are 'a', 'b' and 'c'" for a glob that does not match a parameter.
std::string describeNearestParameters(llvm::StringRef glob, mlir::ModuleOp module);

} // namespace parashard::ir

#endif
