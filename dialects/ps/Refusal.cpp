// Implements the kinds of errors. A diagnostic stores its kind as metadata. The kind of an
// `llvm::Error` is its type.
#include "dialects/ps/Refusal.h"

using namespace mlir;

namespace parashard::ps {

static constexpr llvm::StringLiteral kModel = "parashard.model";
static constexpr llvm::StringLiteral kFlag = "parashard.flag";
static constexpr llvm::StringLiteral kNote = "parashard.note";
static constexpr llvm::StringLiteral kReproducer = "parashard.reproducer";

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

static bool has(Diagnostic &diagnostic, llvm::StringRef kind) {
  return llvm::any_of(diagnostic.getMetadata(), [&](DiagnosticArgument &argument) {
    return argument.getKind() == DiagnosticArgument::DiagnosticArgumentKind::String &&
           argument.getAsString() == kind;
  });
}

Fault getFault(Diagnostic &diagnostic) {
  return has(diagnostic, kFlag)    ? Fault::CommandLine
         : has(diagnostic, kModel) ? Fault::Model
                                   : Fault::Compiler;
}

InFlightDiagnostic note(Location location) { return mark(emitRemark(location), kNote); }

bool isNote(Diagnostic &diagnostic) { return has(diagnostic, kNote); }

void setReproducer(InFlightDiagnostic &diagnostic, llvm::StringRef command) {
  auto &metadata = diagnostic.getUnderlyingDiagnostic()->getMetadata();
  metadata.emplace_back(kReproducer);
  metadata.emplace_back(command);
}

llvm::StringRef getReproducer(Diagnostic &diagnostic) {
  auto metadata = llvm::ArrayRef(diagnostic.getMetadata().begin(), diagnostic.getMetadata().end());
  for (size_t i = 0; i + 1 < metadata.size(); ++i)
    if (metadata[i].getKind() == DiagnosticArgument::DiagnosticArgumentKind::String &&
        metadata[i].getAsString() == kReproducer)
      return metadata[i + 1].getAsString();
  return "";
}

} // namespace parashard::ps
