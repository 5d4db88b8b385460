// Lowers kernels in MLIR to LLVM IR, for all targets.
#ifndef PARASHARD_LIB_CODEGEN_LOWERING_H
#define PARASHARD_LIB_CODEGEN_LOWERING_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>

namespace parashard::codegen {

/// Lowers `kernels` (scf, arith, math, vector, llvm) in place to the llvm dialect.
mlir::LogicalResult lowerKernels(mlir::ModuleOp kernels);
/// Lowers each of the modules that `modules` contains, as `lowerKernels` does.
mlir::LogicalResult lowerKernelModules(mlir::ModuleOp modules);
/// Translates a module of the llvm dialect for `machine`. Returns null after a diagnostic.
std::unique_ptr<llvm::Module> translateKernels(mlir::ModuleOp kernels, llvm::LLVMContext &context,
                                               llvm::TargetMachine &machine);
/// Optimizes the code. Fails with a diagnostic if the result calls functions other than memcpy,
/// memset and f64 math functions.
mlir::LogicalResult optimizeKernels(mlir::ModuleOp kernels, llvm::Module &module,
                                    llvm::TargetMachine &machine);
mlir::LogicalResult writeCode(mlir::ModuleOp kernels, llvm::Module &module,
                              llvm::TargetMachine &machine, llvm::CodeGenFileType type,
                              llvm::raw_pwrite_stream &os);

} // namespace parashard::codegen

#endif
