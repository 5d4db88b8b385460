// Provides an MLIR context with all dialects and passes. Many inputs share this context.
#ifndef PARASHARD_FUZZ_COMPILERSUPPORT_H
#define PARASHARD_FUZZ_COMPILERSUPPORT_H

#include "dialects/ps/Ps.h"
#include "fuzz/ImportSupport.h"
#include "fuzz/MlirMutator.h"
#include "fuzz/Scratch.h"
#include "parashard/Driver.h"

namespace fuzz {

/// Returns the context that `getContext` returns, after loading the compiler's dialects and passes.
inline mlir::MLIRContext &getCompilerContext() {
  static const bool registered = [] {
    parashard::driver::registerAllPasses();
    return true;
  }();
  (void)registered;
  mlir::MLIRContext &context = getContext();
  if (!context.getLoadedDialect<parashard::ps::PSDialect>()) {
    mlir::DialectRegistry registry;
    parashard::driver::registerEverything(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  return context;
}

/// Reads a module as ps-compile does: parses the text and verifies the constraints of the module's
/// level.
inline mlir::OwningOpRef<mlir::ModuleOp> loadText(mlir::MLIRContext &context,
                                                  const std::string &text) {
  parashard::driver::CompileOptions options;
  options.model = writeFile("model.mlir", text.data(), text.size());
  return parashard::driver::loadModel(context, options);
}

} // namespace fuzz

#endif
