// Declares refusals: errors about the user's input, as opposed to compiler failures.
#ifndef PARASHARD_DIALECTS_PS_REFUSAL_H
#define PARASHARD_DIALECTS_PS_REFUSAL_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

namespace parashard::ps {

/// Begins an error about the model, at its source location. The message tells the user what to
/// change, so nobody needs to reproduce the failing pass. For any other error of a pass, the tools
/// write the input of the pass next to the output, for a compiler engineer.
mlir::InFlightDiagnostic refuse(mlir::Operation *op);

/// Returns whether an error is about the user's input: created by `refuse`, or beginning with a
/// flag ("--freeze no.such: ...").
bool isRefusal(mlir::Diagnostic &diagnostic);

} // namespace parashard::ps

#endif
