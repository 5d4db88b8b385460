// Declares the location of an op in the model's source: its module path and its Python line.
#ifndef PARASHARD_LIB_IMPORT_SOURCELOCATION_H
#define PARASHARD_LIB_IMPORT_SOURCELOCATION_H

#include "mlir/IR/Location.h"
#include <string>

namespace parashard::import {

struct SourceLocation {
  std::string modulePath; ///< such as "transformer.h.0.attn"; empty: the model itself
  std::string file;  ///< file of the innermost Python line outside torch; else the model's file
  unsigned line = 0; ///< 0 if `file` is the model's file
};

/// Reads a formatted Python traceback. Sets file and line to the innermost frame outside torch.
void readStackTrace(llvm::StringRef trace, SourceLocation &source);
/// Returns a NameLoc with the module path, around a FileLineColLoc with the Python line.
mlir::Location getLocation(const SourceLocation &source, mlir::MLIRContext *context);
/// Formats a location. Example: "transformer.h.0.attn (modeling_gpt2.py:313)".
std::string describeLocation(const SourceLocation &source);

} // namespace parashard::import

#endif
