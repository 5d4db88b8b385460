// Compiles kernels in MLIR to an archive of object files for one CPU.
#ifndef PARASHARD_LIB_CODEGEN_CPU_TARGET_H
#define PARASHARD_LIB_CODEGEN_CPU_TARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace parashard::codegen {

class CpuTarget {
public:
  /// Creates the target. `cpu` is a name that LLVM knows (x86-64-v4, znver5, ...), or native.
  static llvm::Expected<CpuTarget> create(llvm::StringRef cpu);

  /// Returns the number of f32 lanes per vector: 16 with AVX-512, 8 with AVX2, else 4.
  unsigned getLanes() const { return lanes; }
  /// Returns LLVM's name of the CPU, such as "x86-64-v3".
  llvm::StringRef getName() const { return cpu; }
  /// Compiles the kernels and globals of `module` (scf, arith, math, vector, llvm), and writes an
  /// archive of object files. Reuses the objects that are in the user's cache folder, and adds the
  /// objects of new kernels to this folder. Moves the kernels out of `module`. Fails with a
  /// diagnostic if a kernel calls functions other than memcpy, memset and f64 math functions.
  mlir::LogicalResult writeObjects(mlir::ModuleOp module, llvm::StringRef path) const;

private:
  struct Translated;
  mlir::LogicalResult translate(mlir::ModuleOp source, Translated &result) const;
  /// Compiles kernels on all cores.
  llvm::Error compileKernels(std::deque<Translated> &kernels) const;
  mlir::FailureOr<std::vector<std::string>> makeKernels(mlir::ModuleOp kernels) const;

  std::shared_ptr<llvm::TargetMachine> machine;
  std::string cpu;
  unsigned lanes = 4;
};

/// Adds a global `symbol` with these bytes to the module. With `withSize`, also adds the number of
/// bytes as `symbol_size`.
void addBytes(mlir::ModuleOp module, llvm::StringRef symbol, llvm::StringRef bytes, bool withSize);
/// Adds the table of kernel addresses. With `hasNullAddresses`, all addresses are null. A program
/// for a GPU needs such a table, because its kernels are in the GPU's image.
void addKernelTable(mlir::ModuleOp module, llvm::StringRef symbol,
                    llvm::ArrayRef<std::string> kernels, bool hasNullAddresses);

} // namespace parashard::codegen

#endif
