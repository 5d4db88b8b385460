// Links a compiled object into an executable or a shared library.
#ifndef PARASHARD_LIB_CODEGEN_LINK_H
#define PARASHARD_LIB_CODEGEN_LINK_H

#include "Payload.h"
#include "Portable.h"
#include "llvm/Support/Error.h"

namespace parashard::codegen {

/// Returns the path of the folder with the runtime's libraries. Relative to the folder of the
/// running tool, the path is ../lib/parashard in an installation, and ../lib in a build.
llvm::Expected<std::string> findRuntimeFolder();

struct LinkOptions {
  bool withCuda = false;   ///< the executable runs on GPUs
  bool isPortable = false; ///< the libraries are in a folder beside the executable
};

/// Links all objects of `archive` with the runtime to an executable or, if `output` ends in .so, to
/// a shared library without the runtime. Appends `payload` to the program. Writes the output
/// atomically. Returns the libraries of a portable program, or an empty list for other programs.
llvm::Expected<ProgramLibraries> linkProgram(llvm::StringRef archive, llvm::StringRef output,
                                             const Payload &payload,
                                             const LinkOptions &options = {});

} // namespace parashard::codegen

#endif
