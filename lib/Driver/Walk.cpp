// Lowers a module through the levels: runs the passes of each level, dumps levels, and reports how
// to reproduce failures.
#include "parashard/Driver.h"

#include "Walk.h"
#include "dialects/ps/Ps.h"
#include "dialects/ps/Refusal.h"
#include "lib/Support/Files.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

using namespace mlir;
using namespace parashard::support;

namespace parashard::driver {

ps::Level getLevel(ModuleOp module) {
  auto level = module->getAttrOfType<ps::LevelAttr>(kLevelMark);
  return level ? level.getValue() : ps::Level::Imported;
}

void setLevel(ModuleOp module, ps::Level level) {
  module->setAttr(kLevelMark, ps::LevelAttr::get(module.getContext(), level));
}

LogicalResult addLevelPipeline(OpPassManager &pm, ps::Level level, const CompileOptions &options) {
  return parsePassPipeline(llvm::join(getPasses(level, options), ","), pm);
}

static LogicalResult writeModule(ModuleOp module, StringRef path, const Twine &comment = "") {
  llvm::Error error = writeAtomically(path, [&](llvm::raw_ostream &os) {
    os << comment;
    module->print(os, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
  });
  if (!error)
    return success();
  return module->emitError() << llvm::toString(std::move(error));
}

/// Recreates the module as it was before `level`, because a compile does not keep a copy. Returns
/// null on failure.
static OwningOpRef<ModuleOp> repeatUpTo(ps::Level level, MLIRContext *context,
                                        const CompileOptions &options, const WalkOptions &walk) {
  // The first run has already printed the diagnostics of these levels.
  ScopedDiagnosticHandler silence(context, [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module = walk.reload();
  WalkOptions before;
  before.stopAfter = ps::Level(unsigned(level) - 1);
  if (module && failed(runWalk(*module, options, before)))
    return nullptr;
  return module;
}

/// Writes the input of the failed level, and prints the ps-opt command that reproduces the failure.
static void reportFailure(ps::Level level, ArrayRef<std::string> passes, MLIRContext *context,
                          const CompileOptions &options, const WalkOptions &walk) {
  if (walk.failurePath.empty() || !walk.reload)
    return;
  OwningOpRef<ModuleOp> input = repeatUpTo(level, context, options, walk);
  if (!input || failed(writeModule(*input, walk.failurePath)))
    return;
  std::string command = "ps-opt --pass-pipeline='builtin.module(" + llvm::join(passes, ",") +
                        ")' " + walk.failurePath;
  InFlightDiagnostic note = ps::note(UnknownLoc::get(context));
  note << "pass " << passes.back() << " failed; reproduce the failure with\n" << command;
  ps::setReproducer(note, command);
}

/// Records whether an error is about the model or a flag. After such an error, the user does not
/// need the command that reproduces the failure.
class Refusals : public ScopedDiagnosticHandler {
public:
  explicit Refusals(MLIRContext *context)
      : ScopedDiagnosticHandler(context, [this](Diagnostic &diagnostic) {
          any |= diagnostic.getSeverity() == DiagnosticSeverity::Error &&
                 ps::getFault(diagnostic) != ps::Fault::Compiler;
          return failure(); // not handled, so that the next handler prints the diagnostic
        }) {}
  bool any = false;
};

/// Returns true if MLIR's verifier runs after the level. Otherwise, only the level's own ps-verify
/// pass checks the module.
static bool needsVerifier(ps::Level level) {
  return level != ps::Level::Planned && level != ps::Level::Scheduled;
}

LogicalResult runTransforms(ModuleOp module, ArrayRef<std::string> passes) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.enableVerifier(false);
  for (const std::string &pass : passes)
    if (failed(parsePassPipeline(pass, pm)))
      return module.emitError() << "cannot create pass " << pass;
  return pm.run(module);
}

/// Runs the passes of one level. Each pass has its own pass manager, which identifies a failing
/// pass. Verifies the IR at most once, at the end, while `ps-opt` verifies after each pass.
static LogicalResult runLevel(ModuleOp module, ps::Level level, const CompileOptions &options,
                              const WalkOptions &walk) {
  std::vector<std::string> passes = getPasses(level, options);
  if (walk.onlyTransforms)
    llvm::erase_if(passes, [](StringRef pass) { return !isTransform(pass); });
  for (auto [i, pass] : llvm::enumerate(passes)) {
    PassManager pm(module.getContext(), ModuleOp::getOperationName());
    if (failed(parsePassPipeline(pass, pm)))
      return module.emitError() << "cannot create pass " << pass;
    pm.enableVerifier(false);
    bool isVerified = i + 1 == passes.size() && needsVerifier(level) && !walk.onlyTransforms;
    if (walk.onPass)
      walk.onPass(StringRef(pass).split('{').first);
    Refusals refusals(module.getContext());
    if (failed(pm.run(module)) || (isVerified && failed(verify(module)))) {
      if (!refusals.any)
        reportFailure(level, ArrayRef(passes).take_front(i + 1), module.getContext(), options,
                      walk);
      return failure();
    }
  }
  setLevel(module, level);
  return success();
}

/// Writes DIR/N-LEVEL.mlir. The first line lists the passes that created this level from the
/// previous one, if any.
static LogicalResult dump(ModuleOp module, const CompileOptions &options, StringRef dir) {
  if (std::error_code code = llvm::sys::fs::create_directories(dir))
    return ps::refuseFlag(module, "dump-dir " + dir)
           << ": the folder cannot be created: " << code.message();
  ps::Level level = getLevel(module);
  SmallString<128> path(dir);
  llvm::sys::path::append(
      path, llvm::formatv("{0}-{1}.mlir", unsigned(level), ps::stringifyLevel(level)).str());
  std::string passes = llvm::join(getPasses(level, options), ",");
  return writeModule(module, path, passes.empty() ? "" : "// passes: " + passes + "\n");
}

LogicalResult runWalk(ModuleOp module, const CompileOptions &given, const WalkOptions &walk) {
  CompileOptions options = given;
  if (walk.stopAfter >= ps::Level::Planned)
    if (std::optional<std::string> found = searchShardings(module, given))
      options.shardingPolicy = *found;
  if (!walk.dumpDir.empty() && failed(dump(module, options, walk.dumpDir)))
    return failure();
  unsigned last = std::min(unsigned(walk.stopAfter), unsigned(ps::Level::Placed));
  for (unsigned next = unsigned(getLevel(module)) + 1; next <= last; ++next) {
    auto begin = std::chrono::steady_clock::now();
    if (failed(runLevel(module, ps::Level(next), options, walk)))
      return failure();
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (walk.onLevel)
      walk.onLevel(ps::Level(next), seconds.count());
    if (!walk.dumpDir.empty() && failed(dump(module, options, walk.dumpDir)))
      return failure();
  }
  return success();
}

} // namespace parashard::driver
