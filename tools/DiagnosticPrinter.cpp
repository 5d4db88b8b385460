// Prints diagnostics with the location in the model.
#include "tools/DiagnosticPrinter.h"
#include "dialects/ps/Refusal.h"
#include "lib/Sharding/Reasons.h"
#include "mlir/IR/MLIRContext.h"
#include "shared/PrintableText.h"
#include "tools/Messages.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace parashard {

/// Returns true if a name in a location is the model's file, and not the path of a module.
static bool isModelFile(NameLoc name) {
  StringRef text = name.getName();
  return isa<UnknownLoc>(name.getChildLoc()) && (text.ends_with(".pt2") || text.ends_with(".onnx"));
}

static Severity getSeverity(Diagnostic &diagnostic) {
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Note:
    return Severity::Note;
  case DiagnosticSeverity::Warning:
    return Severity::Warning;
  case DiagnosticSeverity::Error:
    return Severity::Error;
  case DiagnosticSeverity::Remark:
    return ps::isNote(diagnostic) ? Severity::Note : Severity::Remark;
  }
  llvm_unreachable("unknown severity");
}

/// Sets the location of a message, unless the message names a flag instead.
static void setLocation(Message &message, Diagnostic &diagnostic) {
  if (ps::getFault(diagnostic) == ps::Fault::CommandLine)
    return;
  Location location = diagnostic.getLocation();
  auto file = dyn_cast<FileLineColLoc>(location);
  if (file && file.getLine())
    message.location = llvm::formatv("{0}:{1}:{2}", escapeControls(file.getFilename().getValue()),
                                     file.getLine(), file.getColumn());
  else
    message.location = escapeControls(sharding::describeLocation(location));
  if (auto name = location->findInstanceOf<NameLoc>())
    (isModelFile(name) ? message.file : message.module) = name.getName().str();
  if (!file)
    file = location->findInstanceOf<FileLineColLoc>();
  if (!file)
    return;
  message.file = file.getFilename().str();
  message.line = file.getLine();
  message.column = file.getColumn();
}

static Message makeMessage(Diagnostic &diagnostic) {
  Message message;
  message.severity = getSeverity(diagnostic);
  message.text = diagnostic.str();
  message.reproducer = ps::getReproducer(diagnostic).str();
  setLocation(message, diagnostic);
  for (Diagnostic &note : diagnostic.getNotes())
    message.notes.push_back(makeMessage(note));
  return message;
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context)
    : handler(context.getDiagEngine().registerHandler(
          [](Diagnostic &d) { printMessage(makeMessage(d)); })),
      engine(context.getDiagEngine()) {}

} // namespace parashard
