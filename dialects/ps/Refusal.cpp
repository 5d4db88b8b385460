// Implements refusals, which carry a mark in the metadata of their diagnostic.
#include "dialects/ps/Refusal.h"

using namespace mlir;

namespace parashard::ps {

static constexpr llvm::StringLiteral kRefused = "refused";

InFlightDiagnostic refuse(Operation *op) {
  InFlightDiagnostic error = op->emitError();
  error.getUnderlyingDiagnostic()->getMetadata().emplace_back(kRefused);
  return error;
}

bool isRefusal(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
    return false;
  auto isMark = [](DiagnosticArgument &argument) {
    return argument.getKind() == DiagnosticArgument::DiagnosticArgumentKind::String &&
           argument.getAsString() == kRefused;
  };
  return llvm::any_of(diagnostic.getMetadata(), isMark) ||
         llvm::StringRef(diagnostic.str()).starts_with("--");
}

} // namespace parashard::ps
