// The parameters of a module, and those that a user names.
#ifndef PARASHARD_LIB_SUPPORT_PARAMETERS_H
#define PARASHARD_LIB_SUPPORT_PARAMETERS_H

#include "dialects/ps/Ps.h"

namespace parashard {

/// In the order of the module.
llvm::SmallVector<ps::VariableOp> getParameters(mlir::ModuleOp module);

/// True when a glob (shared/Globs.h) matches the symbol or one of the names of a variable.
bool matchesGlob(llvm::StringRef glob, ps::VariableOp variable);

/// Whether a glob matches some parameter.
bool matchesParameter(llvm::StringRef glob, mlir::ModuleOp module);

/// "; the nearest names are ..." of the parameters, for a glob that matches none of them.
std::string describeNearestParameters(llvm::StringRef glob, mlir::ModuleOp module);

} // namespace parashard

#endif
