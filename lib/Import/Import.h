// Imports an exported model as a module of level 0 (see docs/levels.md).
#ifndef PARASHARD_LIB_IMPORT_IMPORT_H
#define PARASHARD_LIB_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace parashard {

struct ImportOptions {
  /// "INPUT.D=N" or "SYMBOL=N", as `--dim`.
  std::vector<std::string> dims;
  /// The size of the batch symbol; 0 where not given.
  int64_t batch = 0;
};

/// Imports a `.pt2` archive of torch.export. Weights are referenced in the archive, never copied.
/// Null after an error, which is told to the context's diagnostic handlers; `notes` gets a line for
/// each thing that was assumed (sizes of dims that were not bound).
mlir::OwningOpRef<mlir::ModuleOp> importPt2(mlir::MLIRContext &context, llvm::StringRef path,
                                            const ImportOptions &options,
                                            std::vector<std::string> &notes);

} // namespace parashard

#endif
