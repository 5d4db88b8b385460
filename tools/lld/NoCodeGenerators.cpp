// Keeps LLVM's code generators out of the linker. lld initializes all of them for link-time
// optimization, which programs never use. These empty functions replace the initializers, so that
// the code generators are not linked: the linker has 33 MB instead of 126 MB.
#include "llvm/Plugins/PassPlugin.h"

#define LLVM_TARGET(NAME)                                                                          \
  extern "C" void LLVMInitialize##NAME##TargetInfo() {}                                            \
  extern "C" void LLVMInitialize##NAME##Target() {}                                                \
  extern "C" void LLVMInitialize##NAME##TargetMC() {}
#include "llvm/Config/Targets.def"

#define LLVM_ASM_PRINTER(NAME)                                                                     \
  extern "C" void LLVMInitialize##NAME##AsmPrinter() {}
#include "llvm/Config/AsmPrinters.def"

#define LLVM_ASM_PARSER(NAME)                                                                      \
  extern "C" void LLVMInitialize##NAME##AsmParser() {}
#include "llvm/Config/AsmParsers.def"

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Polly", LLVM_VERSION_STRING, [](llvm::PassBuilder &) {}};
}
