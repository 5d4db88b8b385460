// Keeps the first error of an attempt, without printing diagnostics.
#ifndef PARASHARD_LIB_DRIVER_FIRSTERROR_H
#define PARASHARD_LIB_DRIVER_FIRSTERROR_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include <string>
#include <thread>

namespace parashard::driver {

/// Silences the diagnostics of this thread, and keeps the first error in `reason`.
class FirstError : public mlir::ScopedDiagnosticHandler {
public:
  FirstError(mlir::MLIRContext &context, std::string &reason)
      : ScopedDiagnosticHandler(
            &context, [&reason, thread = std::this_thread::get_id()](mlir::Diagnostic &diagnostic) {
              if (std::this_thread::get_id() != thread)
                return mlir::failure(); // the handler of the other thread handles it
              if (reason.empty() && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
                reason = diagnostic.str();
              return mlir::success();
            }) {}
};

} // namespace parashard::driver

#endif
