// Emits the kernels of a program; equal fused ops share their kernels.
#ifndef PARASHARD_LIB_CODEGEN_KERNELSET_H
#define PARASHARD_LIB_CODEGEN_KERNELSET_H

#include "KernelEmitter.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace parashard::codegen {

/// Creates the emitter of a target.
using KernelFactory = std::function<std::unique_ptr<KernelEmitter>(
    ps::FusedOp op, const fusion::Piece &piece, const fusion::IterationSpace &space,
    const FusedContext &context, mlir::ModuleOp module, llvm::StringRef name)>;

class KernelSet {
public:
  /// Adds kernels to `module` (builtin.module of llvm, scf, arith, math, vector).
  KernelSet(mlir::ModuleOp module, llvm::StringRef prefix, KernelFactory factory)
      : module(module), prefix(prefix), factory(std::move(factory)) {}

  /// Returns the calls that run `op`; null after a diagnostic.
  const llvm::SmallVector<KernelCall> *get(ps::FusedOp op, const FusedContext &context);
  /// Returns the names of all kernels, in the order of their numbers.
  llvm::ArrayRef<std::string> getNames() const { return names; }
  unsigned getNumber(llvm::StringRef name) const { return numbers.lookup(name); }

private:
  mlir::ModuleOp module;
  std::string prefix;
  KernelFactory factory;
  llvm::StringMap<llvm::SmallVector<KernelCall>> byText;
  std::vector<std::string> names;
  llvm::StringMap<unsigned> numbers;
};

} // namespace parashard::codegen

#endif
