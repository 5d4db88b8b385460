// ps-translate: imports a .pt2 or ONNX model, and writes a module of level 0.
#include "dialects/ps/Refusal.h"
#include "tools/CommandLine.h"

#include "dialects/ps/Ps.h"
#include "lib/Support/Files.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "parashard/Import.h"
#include "shared/PrintableText.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace parashard;
using namespace parashard::import;
using namespace parashard::support;

namespace {

constexpr StringLiteral kOverview = R"(imports a model into Parashard's IR (level 0)

EXAMPLES
  In Python:   program = torch.export.export(model.train(), (input_ids, labels))
               torch.export.save(program, "gpt.pt2")
               torch.onnx.export(model, (input_ids, labels), "gpt.onnx", dynamo=True, optimize=False)
  In a shell:  ps-translate --import-pt2 gpt.pt2 -o gpt.mlir
               ps-translate --import-onnx gpt.onnx -o gpt.mlir
               ps-translate --import-pt2 gpt.pt2 --check                        only check that the import is supported
               ps-translate --import-pt2 gpt.pt2 --batch 32 -o gpt.mlir         for an export with a dynamic batch
               ps-translate --import-pt2 gpt.pt2 --dim input_ids.1=512 -o gpt.mlir

Weights stay in the model's file; the module refers to them. ps-compile imports models itself; this tool shows the
result of the import.

Exit status: 0 success, 1 error in the model, 2 error in the command line.
)";

struct Options {
  cl::OptionCategory category{"ps-translate"};
  cl::opt<std::string> pt2{"import-pt2", cl::desc("the torch.export archive to import"),
                           cl::value_desc("FILE"), cl::cat(category)};
  cl::opt<std::string> onnx{"import-onnx", cl::desc("the ONNX model to import"),
                            cl::value_desc("FILE"), cl::cat(category)};
  cl::list<std::string> dims{
      "dim", cl::desc("size of a dynamic dim: input_ids.0=8, or s72=8 by its symbol; repeatable"),
      cl::value_desc("INPUT.D=N"), cl::cat(category)};
  cl::opt<int64_t> batch{"batch", cl::desc("samples in the batch dim of all inputs"),
                         cl::value_desc("N"), cl::init(0), cl::cat(category)};
  cl::list<std::string> init{
      "init",
      cl::desc("initial values of parameters exported without data: normal(0.02), "
               "*norm*=ones; repeatable, first match wins"),
      cl::value_desc("[GLOB=]DISTRIBUTION"), cl::cat(category)};
  cl::opt<bool> check{"check", cl::desc("write nothing; only report unsupported parts"),
                      cl::cat(category)};
  cl::opt<bool> debugInfo{"locations",
                          cl::desc("print source locations (module path and Python line)"),
                          cl::init(true), cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("the .mlir file to write ('-': standard output)"),
                              cl::value_desc("OUT.mlir"), cl::cat(category)};

  const std::string &getModel() const { return onnx.empty() ? pt2 : onnx; }
};

int fail(ExitStatus status, const Twine &message) {
  errs() << "ps-translate: error: " << escapeControls(message.str(), "\n  ") << "\n";
  return status;
}

/// Prints a diagnostic as `tool: error: text`. The importers' messages contain the location.
void printDiagnostic(mlir::Diagnostic &diagnostic) {
  StringRef severity = diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error     ? "error"
                       : diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning ? "warning"
                                                                                       : "note";
  errs() << "ps-translate: " << severity << ": " << escapeControls(diagnostic.str(), "\n  ")
         << "\n";
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    errs() << "ps-translate: note: " << escapeControls(note.str(), "\n  ") << "\n";
}

int translate(const Options &options) {
  mlir::MLIRContext context;
  context.printOpOnDiagnostic(false);
  mlir::ScopedDiagnosticHandler handler(&context, [](mlir::Diagnostic &diagnostic) {
    printDiagnostic(diagnostic);
    return mlir::success();
  });
  FaultRecorder faults(context);
  std::vector<std::string> notes;
  ImportOptions import;
  import.dims = {options.dims.begin(), options.dims.end()};
  import.batch = options.batch;
  mlir::OwningOpRef<mlir::ModuleOp> module = options.onnx.empty()
                                                 ? importPt2(context, options.pt2, import, notes)
                                                 : importOnnx(context, options.onnx, import, notes);
  for (const std::string &note : notes)
    errs() << "ps-translate: note: " << escapeControls(note, "\n  ") << "\n";
  if (!module)
    return faults.getStatus();
  if (!options.init.empty() &&
      mlir::failed(setInitialValues(
          *module, std::vector<std::string>(options.init.begin(), options.init.end()))))
    return faults.getStatus();
  if (options.check) {
    outs() << options.getModel() << ": the whole model is supported\n";
    return Done;
  }
  auto print = [&](raw_ostream &stream) {
    mlir::OpPrintingFlags flags;
    if (options.debugInfo)
      flags.enableDebugInfo(true, false);
    module->print(stream, flags);
    stream << "\n";
  };
  if (options.output == "-")
    return print(outs()), Done;
  if (Error error = writeAtomically(options.output, print))
    return fail(Failed, toString(std::move(error)));
  return Done;
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  parashard::reportFailedWrites();
  Options options;
  cl::HideUnrelatedOptions(options.category);
  if (!parashard::parseTool(argc, argv, kOverview))
    return BadCommandLine;
  if (options.getModel().empty())
    return fail(
        BadCommandLine,
        "no model given; use --import-pt2 FILE or --import-onnx FILE (--help shows examples)");
  if (!options.pt2.empty() && !options.onnx.empty())
    return fail(BadCommandLine, "give --import-pt2 or --import-onnx, not both");
  if (options.output.empty() && !options.check)
    return fail(BadCommandLine, "no output given; use -o OUT.mlir, or --check");
  if (Error error = checkModelFile(options.getModel()))
    return fail(BadCommandLine, toString(std::move(error)));
  if (!options.output.empty() && options.output != "-") {
    Expected<std::string> output = findOutputFile(options.output);
    if (!output)
      return fail(BadCommandLine, toString(output.takeError()));
    options.output = *output;
    if (Error error = checkOutputFile(options.getModel(), options.output))
      return fail(BadCommandLine, toString(std::move(error)));
  }
  if (options.batch < 0 || (options.batch.getNumOccurrences() && options.batch == 0))
    return fail(BadCommandLine, toString(ps::createFlagError("batch", " must be at least 1")));
  return translate(options);
}
