// ps-compile: compiles a single-device model into a program that runs on many ranks. The executable
// also contains ps-plan, because both contain the whole compiler.
#include "Flags.h"
#include "OutputFiles.h"
#include "Progress.h"
#include "dialects/ps/Refusal.h"
#include "tools/CommandLine.h"
#include "tools/DiagnosticPrinter.h"
#include "tools/FlagTable.h"

#include "lib/IR/Stages.h"
#include "lib/Support/Files.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/MLIRContext.h"
#include "parashard/Codegen.h"
#include "parashard/Memory.h"
#include "parashard/Report.h"
#include "shared/PrintableText.h"
#include "tools/Messages.h"
#include "tools/ps-plan/ps-plan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::driver;
using namespace parashard::memory;
using namespace parashard::report;
using namespace parashard::support;

namespace {

/// Plans a copy of the model for one rank, and lowers it to level `placed`. Returns null after a
/// diagnostic.
OwningOpRef<ModuleOp> placeOnOneRank(ModuleOp imported, const CommandLine &line) {
  OwningOpRef<ModuleOp> module = imported.clone();
  // Compiling the N-rank program prints the same warnings.
  ScopedDiagnosticHandler errorsOnly(module->getContext(), [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  CompileOptions options = line.compile;
  options.mesh = "dp=1";
  options.ranks.reset();
  options.shardingPolicy = "replicated";
  options.numChunks = 1;
  options.zero = 0;
  options.recompute = "none";
  options.alignDims = "off";
  options.placement = "loop";
  WalkOptions walk = line.walk;
  walk.dumpDir.clear();
  walk.onLevel = nullptr;
  if (failed(runWalk(*module, options, walk)))
    return nullptr;
  return module;
}

LogicalResult writeText(ModuleOp module, const std::string &path) {
  llvm::Error error = writeAtomically(path, [&](llvm::raw_ostream &os) {
    module->print(os, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
  });
  if (!error)
    return success();
  return module->emitError() << llvm::toString(std::move(error));
}

/// Checks that the flags fit the level of the module. The compile of a dump resumes after the
/// dump's level. Flags of this level and of earlier levels have no effect and cause warnings.
llvm::Error checkLevel(ModuleOp module, const CommandLine &line) {
  ps::Level level = getLevel(module);
  if (StringRef(line.compile.model).ends_with(".mlir"))
    for (const GivenFlag &flag : line.given)
      if (flag.usedBy <= level)
        printMessage(Severity::Warning, flag.name + " has no effect: the flag is used by level " +
                                            ps::stringifyLevel(flag.usedBy) + ", and " +
                                            line.compile.model + " is already at level " +
                                            ps::stringifyLevel(level));
  if (!line.output.writtenPlanFile.empty() && level >= ps::Level::Planned)
    return ps::createFlagError("write-plan \"" + line.output.writtenPlanFile + "\"",
                               ": " + line.compile.model + " is at level " +
                                   ps::stringifyLevel(level) +
                                   " and has already been planned; give the original model");
  if (line.walk.stopAfter >= level)
    return llvm::Error::success();
  return llvm::createStringError(line.compile.model + " is at level " + ps::stringifyLevel(level) +
                                 "; --stop-after " + ps::stringifyLevel(line.walk.stopAfter) +
                                 " names an earlier level");
}

/// Fails if the plan file of `--plan` was made for another model.
llvm::Error checkPrediction(ModuleOp module, const CommandLine &line) {
  if (!line.output.givenPrediction || getLevel(module) != ps::Level::Imported)
    return llvm::Error::success();
  return line.output.givenPrediction->checkModel(line.output.givenPlanFile, line.compile.model,
                                                 countParameters(module));
}

/// Writes the report. After code generation, the report also has the names of the kernels.
LogicalResult report(ModuleOp module, const CommandLine &line) {
  if (line.output.report.empty() && line.output.planData.empty())
    return success();
  return writeReport(module, {line.output.report, line.output.planData, line.output.line,
                              line.compile, line.output.measured, line.output.searchAnswer});
}

/// Replaces paths in source locations by file names, so that a portable program contains no paths
/// of this machine. Keeps the names of the model's modules; ONNX module names may look like paths.
void hideFolders(ModuleOp module, StringRef model) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([model](StringAttr text) -> Attribute {
    bool isModel = text.getValue() == model;
    return isModel ? StringAttr::get(text.getContext(), llvm::sys::path::filename(model)) : text;
  });
  replacer.addReplacement([](FileLineColLoc location) -> Attribute {
    return FileLineColLoc::get(location.getContext(),
                               llvm::sys::path::filename(location.getFilename().getValue()),
                               location.getLine(), location.getColumn());
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/false, /*replaceLocs=*/true);
}

LogicalResult compile(MLIRContext &context, ModuleOp module, const CommandLine &line) {
  OwningOpRef<ModuleOp> oneRank;
  if (line.output.check) {
    oneRank = placeOnOneRank(module, line);
    if (!oneRank)
      return failure();
  }
  Progress progress;
  WalkOptions walk = line.walk;
  walk.onPass = [&](StringRef pass) { progress.enter(pass); };
  if (failed(runWalk(module, line.compile, walk)))
    return failure();
  warnOfWholeBatch(module, line.compile);
  progress.enter("machine code");
  if (line.output.isPortable)
    for (ModuleOp each : {module, oneRank ? *oneRank : module})
      hideFolders(each, line.compile.model);
  std::string plan = escapeControls(explainPlan(module) + explainSchedule(module, line.compile) +
                                        explainMemory(module) + explainStep(module),
                                    "\n");
  if (!line.output.timeline.empty() &&
      failed(writeTimeline(module, line.compile, line.output.timeline)))
    return failure();
  if (line.output.explain) {
    llvm::outs() << plan;
    llvm::outs().flush(); // so that the plan precedes later output on stderr
  }
  if (line.output.memoryLimit && failed(checkMemoryLimit(module, *line.output.memoryLimit)))
    return failure();
  if (line.walk.stopAfter < ps::Level::Native) {
    if (!line.output.output.empty() && failed(writeText(module, line.output.output)))
      return failure();
    return report(module, line);
  }
  WeightsMode weights = line.compile.weights == "copy"   ? WeightsMode::Copy
                        : line.compile.weights == "none" ? WeightsMode::None
                                                         : WeightsMode::Reference;
  StringRef model = line.compile.model;
  if (line.output.isPortable)
    plan = llvm::join(llvm::split(plan, model), llvm::sys::path::filename(model));
  CodegenOptions codegen{line.compile.target,
                         line.output.output,
                         (line.output.isPortable ? llvm::sys::path::filename(model) : model).str(),
                         line.output.line,
                         plan,
                         weights,
                         line.walk.dumpDir,
                         line.output.isPortable};
  if (failed(emitProgram(module, oneRank ? *oneRank : ModuleOp(), codegen)))
    return failure();
  return report(module, line);
}

/// Prints an error about the command line. Returns the exit status.
int printUsageError(llvm::Error error) {
  printToolError("ps-compile", llvm::toString(std::move(error)));
  return BadCommandLine;
}

/// Prints the name of each file and folder written in addition to the program.
void printWritten(const CommandLine &line) {
  for (const std::string *path : {&line.output.report, &line.output.planData, &line.output.timeline,
                                  &line.output.writtenPlanFile, &line.walk.dumpDir})
    if (!path->empty())
      printMessage(Severity::Progress, "wrote " + *path);
}

int runCompiler(int argc, char **argv) {
  parashard::reportFailedWrites();
  chooseMessageFormat(argc, argv);
  int status = BadCommandLine;
  std::optional<CommandLine> line = parseCommandLine(argc, argv, status);
  if (!line)
    return status;
  auto begin = std::chrono::steady_clock::now();
  registerAllPasses();
  DialectRegistry registry;
  registerEverything(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  // Diagnostics do not print the op, because it may be the whole module. After a compiler error,
  // the input of the failing level is in failurePath.
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(context);
  FaultRecorder faults(context);
  line->walk.reload = [&] { return loadModel(context, line->compile); };
  OwningOpRef<ModuleOp> module = line->walk.reload();
  if (!module)
    return faults.getStatus();
  if (llvm::Error error = checkLevel(*module, *line))
    return printUsageError(std::move(error));
  if (llvm::Error error = checkPrediction(*module, *line))
    return printUsageError(std::move(error));
  if (llvm::Error error = checkOutputFiles(*line, listWeightFiles(*module)))
    return printUsageError(std::move(error));
  if (!line->output.writtenPlanFile.empty())
    if (std::optional<std::string> found = searchShardings(*module, line->compile)) {
      line->compile.shardingPolicy = *found;
      line->output.planFlags["sharding-policy"] = describeText(*found);
    }
  if (failed(compile(context, *module, *line)))
    return faults.getStatus();
  if (!line->output.writtenPlanFile.empty())
    if (llvm::Error error = writePlanFile(line->output.writtenPlanFile, line->output.planFlags))
      return printUsageError(std::move(error));
  if (!line->walk.failurePath.empty())
    (void)llvm::sys::fs::remove(line->walk.failurePath); // left by an earlier failed compile
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  printWritten(*line);
  if (!line->output.output.empty())
    printMessage(
        Severity::Progress,
        llvm::formatv("wrote {0} in {1:f1} s", line->output.output, seconds.count()).str());
  return Done;
}

} // namespace

/// Runs ps-plan if the executable has this name (bin/ps-plan is a link to ps-compile), or if the
/// first argument is this name (in a wheel, which cannot contain links).
int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  constexpr llvm::StringRef kPlanner = "ps-plan";
  if (llvm::sys::path::filename(argv[0]) == kPlanner)
    return runPlanner(argc, argv);
  if (argc > 1 && argv[1] == kPlanner)
    return runPlanner(argc - 1, argv + 1);
  return runCompiler(argc, argv);
}
