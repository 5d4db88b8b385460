// Prints the diagnostics of a compile for the tools that compile models.
#ifndef PARASHARD_TOOLS_DIAGNOSTICPRINTER_H
#define PARASHARD_TOOLS_DIAGNOSTICPRINTER_H

#include "mlir/IR/Diagnostics.h"

namespace parashard {

/// Prints diagnostics to stderr as `model location: error: text`, followed by their notes, as long
/// as the printer exists.
class DiagnosticPrinter {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext &context);
  ~DiagnosticPrinter() { engine.eraseHandler(handler); }
  DiagnosticPrinter(const DiagnosticPrinter &) = delete;

private:
  mlir::DiagnosticEngine::HandlerID handler;
  mlir::DiagnosticEngine &engine;
};

} // namespace parashard

#endif
