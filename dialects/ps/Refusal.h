// Declares the kinds of errors: about a flag, about the model, and failures of the compiler.
#ifndef PARASHARD_DIALECTS_PS_REFUSAL_H
#define PARASHARD_DIALECTS_PS_REFUSAL_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "llvm/Support/Error.h"

namespace parashard::ps {

/// The kind of an error. The kind determines the exit status of the tools and the files that they
/// write (docs/errors.md). Errors carry their kind as data: no code depends on their text.
enum class Fault {
  Compiler,   ///< any error without another kind
  Model,      ///< the model: created by `refuse`
  CommandLine ///< a flag, or the file that it names: created by `refuseFlag` or `createFlagError`
};

/// Returns a flag as the user writes it. `flag` is its name, optionally followed by its value.
/// Examples: "freeze no.such" gives "--freeze no.such", "o" gives "-o".
std::string spellFlag(llvm::StringRef flag);

/// An `llvm::Error` about a flag, or about the file that the flag names.
class FlagError : public llvm::ErrorInfo<FlagError> {
public:
  static char ID;
  /// `text` begins with the flag.
  explicit FlagError(std::string text) : text(std::move(text)) {}
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string text;
};

/// Creates the error "--FLAG" + `message`. `flag` may include its value.
/// Example: ("mesh", ": axis dp is given twice") gives "--mesh: axis dp is given twice".
llvm::Error createFlagError(const llvm::Twine &flag, const llvm::Twine &message);

/// Begins an error about the model, at the source location of `op`. The message tells the user what
/// to change. For errors of the kind `Compiler`, ps-compile instead writes the input of the failing
/// level next to the output, for a compiler engineer.
mlir::InFlightDiagnostic refuse(mlir::Operation *op);

/// Begins an error about a flag with the text "--FLAG". `flag` may include its value.
/// Example: `refuseFlag(module, "freeze " + glob) << ": matches no parameter"`.
mlir::InFlightDiagnostic refuseFlag(mlir::Operation *op, const llvm::Twine &flag);
mlir::InFlightDiagnostic refuseFlag(mlir::Location location, const llvm::Twine &flag);

/// Begins a warning or a remark about a flag, like `refuseFlag`.
mlir::InFlightDiagnostic warnFlag(mlir::Operation *op, const llvm::Twine &flag);
mlir::InFlightDiagnostic warnFlag(mlir::Location location, const llvm::Twine &flag);
mlir::InFlightDiagnostic remarkFlag(mlir::Operation *op, const llvm::Twine &flag);

/// Begins a note that does not belong to an error or warning. MLIR has only remarks of this kind;
/// tools print it as a note.
mlir::InFlightDiagnostic note(mlir::Location location);
/// Returns true if `note` began the diagnostic.
bool isNote(mlir::Diagnostic &diagnostic);

/// Records the command that repeats a failure. `command` must outlive the diagnostic.
void setReproducer(mlir::InFlightDiagnostic &diagnostic, llvm::StringRef command);
/// Returns the command of `setReproducer`, or "".
llvm::StringRef getReproducer(mlir::Diagnostic &diagnostic);

/// Emits `error`, which must be a failure, as a diagnostic. A `FlagError` keeps its kind.
mlir::InFlightDiagnostic reportError(mlir::Operation *op, llvm::Error error);
mlir::InFlightDiagnostic reportError(mlir::Location location, llvm::Error error);

/// Returns the kind of an error, warning or remark.
Fault getFault(mlir::Diagnostic &diagnostic);

} // namespace parashard::ps

#endif
