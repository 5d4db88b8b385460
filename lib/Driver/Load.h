// Declares how the driver imports a model.
#ifndef PARASHARD_LIB_DRIVER_LOAD_H
#define PARASHARD_LIB_DRIVER_LOAD_H

#include "parashard/Driver.h"
#include "parashard/Import.h"

namespace parashard::driver {

/// Returns the options of a compile that concern the import.
import::ImportOptions getImportOptions(const CompileOptions &options);

/// Imports an .onnx file, or else a .pt2 file. See `importPt2` for errors and `notes`.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context, llvm::StringRef path,
                                              const import::ImportOptions &options,
                                              std::vector<std::string> &notes);

/// Emits the notes of an import.
void emitNotes(mlir::MLIRContext &context, llvm::ArrayRef<std::string> notes);

} // namespace parashard::driver

#endif
