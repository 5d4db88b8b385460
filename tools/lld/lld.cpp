// Links programs for ps-compile. This is lld's linker for ELF files, built from the libraries of
// lld, so that a machine needs no linker of its own.
#include "lld/Common/Driver.h"
#include "llvm/Support/InitLLVM.h"

LLD_HAS_DRIVER(elf)

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  bool isLinked = lld::elf::link(llvm::ArrayRef<const char *>(argv, argc), llvm::outs(),
                                 llvm::errs(), /*exitEarly=*/true, /*disableOutput=*/false);
  return isLinked ? 0 : 1;
}
