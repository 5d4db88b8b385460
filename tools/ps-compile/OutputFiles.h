// Declares the checks of the files that a compile reads and writes, and the writer of plans.
#ifndef PARASHARD_TOOLS_PS_COMPILE_OUTPUTFILES_H
#define PARASHARD_TOOLS_PS_COMPILE_OUTPUTFILES_H

#include "Flags.h"

namespace parashard {

/// Returns the files that hold the values of a module's variables, and the model files that refer
/// to those files.
std::vector<std::string> listWeightFiles(mlir::ModuleOp module);

/// Fails if an output is also an input of the compile or another output, under any spelling of its
/// path. `weights` lists the weight files known so far.
llvm::Error checkOutputFiles(const CommandLine &line, llvm::ArrayRef<std::string> weights = {});

/// Writes a plan atomically, one flag per line.
llvm::Error writePlanFile(llvm::StringRef path, const llvm::json::Object &plan);

} // namespace parashard

#endif
