// Provides an MLIR context that many inputs share.
#ifndef PARASHARD_FUZZ_IMPORTSUPPORT_H
#define PARASHARD_FUZZ_IMPORTSUPPORT_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include <memory>

namespace fuzz {

/// Returns a context that prints no diagnostics. The context is replaced regularly, because types
/// and attributes accumulate in it.
inline mlir::MLIRContext &getContext() {
  static constexpr unsigned kMaxUses = 500;
  static std::unique_ptr<mlir::MLIRContext> context;
  static unsigned uses = 0;
  if (!context || ++uses % kMaxUses == 0) {
    context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
    context->getDiagEngine().registerHandler([](mlir::Diagnostic &) { return mlir::success(); });
  }
  return *context;
}

} // namespace fuzz

#endif
