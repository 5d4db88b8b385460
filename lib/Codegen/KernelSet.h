// The kernels of a program: each distinct fused op is emitted once.
#ifndef PARASHARD_LIB_CODEGEN_KERNELSET_H
#define PARASHARD_LIB_CODEGEN_KERNELSET_H

#include "Cpu/KernelEmitter.h"
#include "llvm/ADT/StringMap.h"

namespace parashard::codegen {

class KernelSet {
public:
  /// Kernels go into `module` (builtin.module of llvm, scf, arith, math, vector).
  KernelSet(mlir::ModuleOp module, llvm::StringRef prefix, unsigned lanes)
      : module(module), prefix(prefix), lanes(lanes) {}

  /// The calls that run `op`; null after a diagnostic. Slots as in FusedContext.
  const llvm::SmallVector<KernelCall> *get(ps::FusedOp op, llvm::ArrayRef<int> scalarSlots,
                                           llvm::ArrayRef<int> firstSlots);
  /// Names of all kernels, in the order of their numbers.
  llvm::ArrayRef<std::string> getNames() const { return names; }
  unsigned getNumber(llvm::StringRef name) const { return numbers.lookup(name); }

private:
  mlir::ModuleOp module;
  std::string prefix;
  unsigned lanes;
  llvm::StringMap<llvm::SmallVector<KernelCall>> byText;
  std::vector<std::string> names;
  llvm::StringMap<unsigned> numbers;
};

} // namespace parashard::codegen

#endif
