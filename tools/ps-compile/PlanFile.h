// Declares the reader (--plan) and the writer (--write-plan) of plan files.
#ifndef PARASHARD_TOOLS_PS_COMPILE_PLANFILE_H
#define PARASHARD_TOOLS_PS_COMPILE_PLANFILE_H

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace parashard {

/// Sets plan flags from the JSON object at `path`. Flags of the command line keep their values;
/// --micro-batches and --global-batch count as the same flag. `find` returns a flag by its name, or
/// null. Errors name the file, the key and the expected value.
llvm::Error readPlanFile(llvm::StringRef path,
                         llvm::function_ref<llvm::cl::Option *(llvm::StringRef)> find);

/// Writes the object atomically, one key per line.
llvm::Error writePlanFile(llvm::StringRef path, const llvm::json::Object &plan);

} // namespace parashard

#endif
