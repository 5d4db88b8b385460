// Which files a compile reads and writes.
#ifndef PARASHARD_TOOLS_PS_COMPILE_OUTPUTFILES_H
#define PARASHARD_TOOLS_PS_COMPILE_OUTPUTFILES_H

#include "Flags.h"

namespace parashard {

/// Returns the files that hold the values of a module's variables, and the models that name them.
std::vector<std::string> listWeightFiles(mlir::ModuleOp module);

/// Fails where an output is a file that the compile reads, or another output, under any spelling.
/// `weights`: the files of the model's weights, as far as they are known.
llvm::Error checkOutputFiles(const CommandLine &line, llvm::ArrayRef<std::string> weights = {});

} // namespace parashard

#endif
