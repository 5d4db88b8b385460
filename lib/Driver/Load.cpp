// Loads a model: imports an exported archive, or parses a dumped level.
#include "lib/Driver/Load.h"
#include "dialects/ps/Ps.h"
#include "dialects/ps/Refusal.h"
#include "dialects/ps/VerifyModule.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace parashard::import;

namespace parashard::driver {

/// Returns the passes that verify the guarantees of a level. A placed module must also pass the
/// checks of a scheduled module.
static StringRef getVerifiers(ps::Level level) {
  switch (level) {
  case ps::Level::Imported: // verified by the first pass of the next level
  case ps::Level::Planned:  // ops may lack ps.shardings; `partitioned` is verified instead
  case ps::Level::Native:
    return "";
  case ps::Level::Training:
    return "ps-verify-training";
  case ps::Level::Partitioned:
    return "ps-verify-partitioned";
  case ps::Level::Scheduled:
    return "ps-verify-scheduled";
  case ps::Level::Placed:
    return "ps-verify-scheduled,ps-verify-placed";
  }
  llvm_unreachable("all levels are listed");
}

/// Parses and verifies a dumped module. A user may have edited the dump, and later passes rely on
/// the guarantees of the dump's level.
static OwningOpRef<ModuleOp> loadDump(StringRef path, MLIRContext *context) {
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, context);
  if (!module || module->getBody()->empty()) {
    emitError(UnknownLoc::get(context))
        << "'" << path << "' " << (module ? "has no ops" : "is not a valid module of MLIR")
        << "; give a file that ps-translate, or ps-compile with --stop-after or --dump-dir, has "
           "written";
    return nullptr;
  }
  if (failed(checkText(*module)))
    return nullptr;
  if (failed(ps::verifyModule(*module)))
    return nullptr;
  PassManager pm(context, ModuleOp::getOperationName());
  if (failed(parsePassPipeline(getVerifiers(getLevel(*module)), pm)) || failed(pm.run(*module)))
    return nullptr;
  return module;
}

ImportOptions getImportOptions(const CompileOptions &options) {
  ImportOptions import;
  import.dims = options.dims;
  import.batch = options.batch.value_or(0);
  import.batchDims = options.batchDims;
  return import;
}

OwningOpRef<ModuleOp> importModel(MLIRContext &context, StringRef path,
                                  const ImportOptions &options, std::vector<std::string> &notes) {
  return path.ends_with(".onnx") ? importOnnx(context, path, options, notes)
                                 : importPt2(context, path, options, notes);
}

/// Returns the names of the buffers that a module writes.
static llvm::StringSet<> findWrittenBuffers(ModuleOp module) {
  llvm::StringSet<> names;
  SymbolTable symbols(module);
  module.walk([&](ps::WriteOp write) {
    auto variable = symbols.lookup<ps::VariableOp>(write.getVariableAttr().getValue());
    if (ArrayAttr all = variable.getNamesAttr())
      for (StringAttr name : all.getAsRange<StringAttr>())
        names.insert(name.getValue());
  });
  return names;
}

/// Imports a model and its inference entries. --batch and --dim apply to the model; entries keep
/// the sizes of their export. If a graph writes buffers, imports all files a second time, because
/// the other graphs must not turn these buffers into constants.
static OwningOpRef<ModuleOp> importEntries(MLIRContext &context, const CompileOptions &options,
                                           std::vector<std::string> &notes) {
  std::vector<std::string> names{""}, files{options.model};
  for (StringRef entry : options.entries) {
    names.push_back(entry.split('=').first.str());
    files.push_back(entry.split('=').second.str());
  }
  ImportOptions import = getImportOptions(options), ofEntry;
  ofEntry.batchDims = import.batchDims;
  std::vector<OwningOpRef<ModuleOp>> modules(files.size());
  auto importAll = [&](std::vector<std::string> &reported) {
    for (auto [i, file] : llvm::enumerate(files))
      if (modules[i] = importPt2(context, file, i == 0 ? import : ofEntry, reported); !modules[i])
        return false;
    return true;
  };
  if (!importAll(notes))
    return nullptr;
  llvm::StringSet<> written;
  for (OwningOpRef<ModuleOp> &module : modules)
    written.insert_range(findWrittenBuffers(*module).keys());
  for (StringRef name : written.keys())
    import.buffers.push_back(name.str());
  ofEntry.buffers = import.buffers;
  std::vector<std::string> repeated;
  if (!written.empty() && !importAll(repeated))
    return nullptr;
  for (size_t i = 1; i < modules.size(); ++i)
    if (failed(addEntry(*modules[0], names[i], std::move(modules[i]))))
      return nullptr;
  return std::move(modules[0]);
}

OwningOpRef<ModuleOp> loadModel(MLIRContext &context, const CompileOptions &options) {
  StringRef path = options.model;
  if (path.ends_with(".mlir"))
    return loadDump(path, &context);
  if (!path.ends_with(".onnx") && !path.ends_with(".pt2")) {
    emitError(UnknownLoc::get(&context))
        << "'" << path
        << "' is not a .pt2, .onnx or .mlir file; export the model with torch.export.save or "
           "torch.onnx.export";
    return nullptr;
  }
  std::vector<std::string> notes;
  OwningOpRef<ModuleOp> module = options.entries.empty()
                                     ? importModel(context, path, getImportOptions(options), notes)
                                     : importEntries(context, options, notes);
  emitNotes(context, notes);
  return module;
}

void emitNotes(MLIRContext &context, llvm::ArrayRef<std::string> notes) {
  for (const std::string &note : notes)
    ps::note(UnknownLoc::get(&context)) << note;
}

int64_t countParameters(ModuleOp module) {
  int64_t count = 0;
  for (auto variable : module.getOps<ps::VariableOp>())
    if (variable.getKind() == ps::VariableKind::Parameter)
      count += variable.getTensorType().getNumElements();
  return count;
}

} // namespace parashard::driver
