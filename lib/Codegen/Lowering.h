// Lowers kernels in MLIR to LLVM IR, for all targets.
#ifndef PARASHARD_LIB_CODEGEN_LOWERING_H
#define PARASHARD_LIB_CODEGEN_LOWERING_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>

namespace parashard::codegen {

/// Lowers `kernels` (scf, arith, math, vector, llvm) in place to the llvm dialect. `hasExp2`:
/// whether the target has an instruction for exp2 of f32. Without it, exp2 is computed in f64 by
/// libm.
mlir::LogicalResult lowerKernels(mlir::ModuleOp kernels, bool hasExp2);
/// Lowers each of the modules that `modules` contains, as `lowerKernels` does without exp2.
mlir::LogicalResult lowerKernelModules(mlir::ModuleOp modules);
/// Translates a module of the llvm dialect for `machine`. Returns null after a diagnostic.
std::unique_ptr<llvm::Module> translateKernels(mlir::ModuleOp kernels, llvm::LLVMContext &context,
                                               llvm::TargetMachine &machine);
/// Optimizes the code. Fails if the result calls functions other than memcpy, memset and f64 math
/// functions. Threads may call this function and `makeCode` for modules of separate contexts, each
/// with its own machine.
llvm::Error optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine);
/// Returns the object file or the assembly of a module.
llvm::Expected<std::string> makeCode(llvm::Module &module, llvm::TargetMachine &machine,
                                     llvm::CodeGenFileType type);

} // namespace parashard::codegen

#endif
