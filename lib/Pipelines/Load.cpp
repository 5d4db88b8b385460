// Brings a model in: an exported archive through its importer, or a dumped level.
#include "dialects/ps/Ps.h"
#include "mlir/Parser/Parser.h"
#include "parashard/Import.h"
#include "parashard/Pipelines.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace parashard {

OwningOpRef<ModuleOp> loadModel(MLIRContext &context, const CompileOptions &options) {
  StringRef path = options.model;
  if (path.ends_with(".mlir"))
    return parseSourceFile<ModuleOp>(path, &context);
  if (!path.ends_with(".pt2")) {
    emitError(UnknownLoc::get(&context))
        << "'" << path << "' is no .pt2 and no .mlir file"
        << (path.ends_with(".onnx") ? ": import of ONNX is not built yet; use torch.export" : "");
    return nullptr;
  }
  ImportOptions import;
  import.dims = options.dims;
  import.batch = options.batch.value_or(0);
  std::vector<std::string> notes;
  OwningOpRef<ModuleOp> module = importPt2(context, path, import, notes);
  for (const std::string &note : notes)
    llvm::errs() << "note: " << note << "\n";
  return module;
}

} // namespace parashard
