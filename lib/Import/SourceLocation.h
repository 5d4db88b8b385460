// Where an op stands in the model's own source: its module and its Python line.
#ifndef PARASHARD_LIB_IMPORT_SOURCELOCATION_H
#define PARASHARD_LIB_IMPORT_SOURCELOCATION_H

#include "mlir/IR/Location.h"
#include <string>

namespace parashard::import {

struct SourceLocation {
  std::string modulePath; ///< "transformer.h.0.attn"; empty: the model itself
  std::string file;  ///< of the innermost Python line outside torch itself; else the model's file
  unsigned line = 0; ///< 0 in the model's file
};

/// Takes the innermost frame outside torch from a formatted Python traceback.
void readStackTrace(llvm::StringRef trace, SourceLocation &place);
/// The module path, with the Python line as its child.
mlir::Location getLocation(const SourceLocation &place, mlir::MLIRContext *context);
/// "transformer.h.0.attn (modeling_gpt2.py:313)"
std::string describeLocation(const SourceLocation &place);

} // namespace parashard::import

#endif
