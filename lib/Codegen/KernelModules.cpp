// Divides a module of kernels into one module per kernel.
#include "KernelModules.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;

/// Adds a declaration of `global` to `module`.
static void declareGlobal(LLVM::GlobalOp global, ModuleOp module) {
  auto declaration = cast<LLVM::GlobalOp>(global->clone());
  declaration.removeValueAttr();
  declaration.getInitializerRegion().getBlocks().clear();
  module.push_back(declaration);
}

/// Adds the globals that `kernel` uses to the kernel's module: moves internal globals, and declares
/// the others.
static void addGlobals(LLVM::LLVMFuncOp kernel, ModuleOp module, SymbolTable &symbols) {
  kernel.walk([&](LLVM::AddressOfOp address) {
    auto global = symbols.lookup<LLVM::GlobalOp>(address.getGlobalName());
    if (!global || module.lookupSymbol(address.getGlobalName()))
      return;
    if (global.getLinkage() != LLVM::Linkage::Internal)
      return declareGlobal(global, module);
    symbols.remove(global);
    global->moveBefore(module.getBody(), module.getBody()->end());
  });
}

OwningOpRef<ModuleOp> codegen::divideKernels(ModuleOp module) {
  OwningOpRef<ModuleOp> result = ModuleOp::create(module.getLoc());
  SymbolTable symbols(module);
  for (auto kernel : llvm::make_early_inc_range(module.getOps<LLVM::LLVMFuncOp>())) {
    if (kernel.isExternal())
      continue;
    auto part = ModuleOp::create(kernel.getLoc());
    result->push_back(part);
    addGlobals(kernel, part, symbols);
    OpBuilder b(kernel);
    LLVM::LLVMFuncOp::create(b, kernel.getLoc(), kernel.getName(), kernel.getFunctionType());
    kernel->moveBefore(part.getBody(), part.getBody()->end());
  }
  return result;
}
