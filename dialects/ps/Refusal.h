// Errors about what the user gave, apart from failures of the compiler.
#ifndef PARASHARD_DIALECTS_PS_REFUSAL_H
#define PARASHARD_DIALECTS_PS_REFUSAL_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

namespace parashard::ps {

/// Begins an error about the model, at its source location. The message tells the user what to
/// change, so nobody has to repeat the pass. Any other error of a pass is one that a compiler
/// engineer looks at: the tools write the pass's input beside the output.
mlir::InFlightDiagnostic refuse(mlir::Operation *op);

/// Whether an error is about what the user gave: one of `refuse`, or one that begins with a flag
/// ("--freeze no.such: ...").
bool isRefusal(mlir::Diagnostic &diagnostic);

} // namespace parashard::ps

#endif
