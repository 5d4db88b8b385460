// Declares lookups of the parameters of a module.
#ifndef PARASHARD_LIB_IR_PARAMETERS_H
#define PARASHARD_LIB_IR_PARAMETERS_H

#include "dialects/ps/Ps.h"

namespace parashard::ir {

/// Returns the parameters in module order.
llvm::SmallVector<ps::VariableOp> getParameters(mlir::ModuleOp module);

/// Returns whether a glob (shared/Globs.h) matches the symbol or a name of a variable.
bool matchesVariable(llvm::StringRef glob, ps::VariableOp variable);

/// Returns whether a glob matches any parameter.
bool matchesParameter(llvm::StringRef glob, mlir::ModuleOp module);

/// Returns "; the nearest names are ..." with the parameters nearest to a glob without a match.
std::string describeNearestParameters(llvm::StringRef glob, mlir::ModuleOp module);

} // namespace parashard::ir

#endif
