// Makes an executable or a shared library of a compiled object.
#ifndef PARASHARD_LIB_CODEGEN_LINK_H
#define PARASHARD_LIB_CODEGEN_LINK_H

#include "Payload.h"
#include "llvm/Support/Error.h"

namespace parashard::codegen {

/// The folder of the runtime's libraries, seen from the running tool: ../lib/parashard where it is
/// installed, ../lib in a build.
llvm::Expected<std::string> findRuntimeFolder();

/// Links `object` with the runtime to an executable, or alone to a shared library when `output`
/// ends in .so. The driver is $PARASHARD_LINKER, else the first of clang++-22, clang++, c++, g++ on
/// the path. The program carries `payload`. The output appears whole or not at all.
/// `withCuda`: an executable that runs on GPUs.
llvm::Error linkProgram(llvm::StringRef object, llvm::StringRef output, const Payload &payload,
                        bool withCuda = false);

} // namespace parashard::codegen

#endif
