// The flags of a plan as a file: what --plan reads and --write-plan writes.
#ifndef PARASHARD_TOOLS_PS_COMPILE_PLANFILE_H
#define PARASHARD_TOOLS_PS_COMPILE_PLANFILE_H

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace parashard {

/// Gives plan flags the values that the JSON object at `path` has, but those that the command line
/// gives (and of --micro-batches and --global-batch the other one too). `find` returns a flag by
/// its name, null where there is none. Errors name the file, the key, and what is expected.
llvm::Error readPlanFile(llvm::StringRef path,
                         llvm::function_ref<llvm::cl::Option *(llvm::StringRef)> find);

/// Writes the object, a key a line. The file appears whole or not at all.
llvm::Error writePlanFile(llvm::StringRef path, const llvm::json::Object &plan);

} // namespace parashard

#endif
