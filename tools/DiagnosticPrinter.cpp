// Prints diagnostics with the location in the model.
#include "tools/DiagnosticPrinter.h"
#include "dialects/ps/Refusal.h"
#include "lib/Sharding/Reasons.h"
#include "mlir/IR/MLIRContext.h"
#include "shared/PrintableText.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace parashard {

static void printOne(Diagnostic &diagnostic) {
  static constexpr const char *kNames[] = {"note", "warning", "error", "remark"};
  auto file = dyn_cast<FileLineColLoc>(diagnostic.getLocation());
  if (ps::getFault(diagnostic) == ps::Fault::CommandLine)
    ; // the message names a flag instead of a location
  else if (file && file.getLine())
    llvm::errs() << escapeControls(file.getFilename().getValue()) << ":" << file.getLine() << ":"
                 << file.getColumn() << ": ";
  else if (std::string location = sharding::describeLocation(diagnostic.getLocation());
           !location.empty())
    llvm::errs() << escapeControls(location) << ": ";
  llvm::errs() << kNames[unsigned(diagnostic.getSeverity())] << ": "
               << escapeControls(diagnostic.str(), "\n  ") << "\n";
}

static void print(Diagnostic &diagnostic) {
  printOne(diagnostic);
  for (Diagnostic &note : diagnostic.getNotes())
    printOne(note);
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context)
    : handler(context.getDiagEngine().registerHandler([](Diagnostic &d) { print(d); })),
      engine(context.getDiagEngine()) {}

} // namespace parashard
