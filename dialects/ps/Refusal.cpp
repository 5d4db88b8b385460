// Implements the kinds of errors. A diagnostic stores its kind as metadata. The kind of an
// `llvm::Error` is its type.
#include "dialects/ps/Refusal.h"

using namespace mlir;

namespace parashard::ps {

static constexpr llvm::StringLiteral kModel = "parashard.model";
static constexpr llvm::StringLiteral kFlag = "parashard.flag";

char FlagError::ID = 0;

void FlagError::log(llvm::raw_ostream &os) const { os << text; }

std::string spellFlag(llvm::StringRef flag) {
  bool isShort = flag.split(' ').first.size() == 1;
  return (isShort ? "-" : "--") + flag.str();
}

llvm::Error createFlagError(const llvm::Twine &flag, const llvm::Twine &message) {
  return llvm::make_error<FlagError>(spellFlag(flag.str()) + message.str());
}

static InFlightDiagnostic mark(InFlightDiagnostic diagnostic, llvm::StringLiteral kind) {
  diagnostic.getUnderlyingDiagnostic()->getMetadata().emplace_back(kind);
  return diagnostic;
}

static InFlightDiagnostic nameFlag(InFlightDiagnostic diagnostic, const llvm::Twine &flag) {
  diagnostic << spellFlag(flag.str());
  return mark(std::move(diagnostic), kFlag);
}

InFlightDiagnostic refuse(Operation *op) { return mark(op->emitError(), kModel); }

InFlightDiagnostic refuseFlag(Operation *op, const llvm::Twine &flag) {
  return nameFlag(op->emitError(), flag);
}

InFlightDiagnostic refuseFlag(Location location, const llvm::Twine &flag) {
  return nameFlag(emitError(location), flag);
}

InFlightDiagnostic warnFlag(Operation *op, const llvm::Twine &flag) {
  return nameFlag(op->emitWarning(), flag);
}

InFlightDiagnostic warnFlag(Location location, const llvm::Twine &flag) {
  return nameFlag(emitWarning(location), flag);
}

InFlightDiagnostic remarkFlag(Operation *op, const llvm::Twine &flag) {
  return nameFlag(op->emitRemark(), flag);
}

static InFlightDiagnostic report(InFlightDiagnostic diagnostic, llvm::Error error) {
  bool isFlag = error.isA<FlagError>();
  diagnostic << llvm::toString(std::move(error));
  return isFlag ? mark(std::move(diagnostic), kFlag) : std::move(diagnostic);
}

InFlightDiagnostic reportError(Operation *op, llvm::Error error) {
  return report(op->emitError(), std::move(error));
}

InFlightDiagnostic reportError(Location location, llvm::Error error) {
  return report(emitError(location), std::move(error));
}

Fault getFault(Diagnostic &diagnostic) {
  auto has = [&](llvm::StringRef kind) {
    return llvm::any_of(diagnostic.getMetadata(), [&](DiagnosticArgument &argument) {
      return argument.getKind() == DiagnosticArgument::DiagnosticArgumentKind::String &&
             argument.getAsString() == kind;
    });
  };
  return has(kFlag) ? Fault::CommandLine : has(kModel) ? Fault::Model : Fault::Compiler;
}

} // namespace parashard::ps
