// Brings a model in: an exported archive through its importer, or a dumped level.
#include "dialects/ps/Ps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "parashard/Import.h"
#include "parashard/Pipelines.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace parashard {

/// A module that somebody may have changed. Passes check what they are given; code generation,
/// which is all that follows level `placed`, takes addresses as they are.
static OwningOpRef<ModuleOp> loadDump(StringRef path, MLIRContext *context) {
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, context);
  if (!module || getLevel(*module) != ps::Level::Placed)
    return module;
  PassManager pm(context, ModuleOp::getOperationName());
  if (failed(parsePassPipeline("ps-verify-placed", pm)) || failed(pm.run(*module)))
    return nullptr;
  return module;
}

OwningOpRef<ModuleOp> loadModel(MLIRContext &context, const CompileOptions &options) {
  StringRef path = options.model;
  if (path.ends_with(".mlir"))
    return loadDump(path, &context);
  bool isOnnx = path.ends_with(".onnx");
  if (!isOnnx && !path.ends_with(".pt2")) {
    emitError(UnknownLoc::get(&context))
        << "'" << path << "' is no .pt2, no .onnx and no .mlir file";
    return nullptr;
  }
  ImportOptions import;
  import.dims = options.dims;
  import.batch = options.batch.value_or(0);
  std::vector<std::string> notes;
  OwningOpRef<ModuleOp> module =
      isOnnx ? importOnnx(context, path, import, notes) : importPt2(context, path, import, notes);
  for (const std::string &note : notes)
    llvm::errs() << "note: " << note << "\n";
  return module;
}

} // namespace parashard
