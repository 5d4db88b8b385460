// Declares the variables of an exported program: their names, and the files with their values.
#ifndef PARASHARD_LIB_IMPORT_PT2_VARIABLES_H
#define PARASHARD_LIB_IMPORT_PT2_VARIABLES_H

#include "dialects/ps/Ps.h"
#include "lib/Import/Pt2/Archive.h"
#include "lib/Import/Pt2/Graph.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// The variables and constants of a program. The name of a graph input is the key.
class VariableTable {
public:
  /// Creates a `ps.variable` for each parameter, buffer and constant. Names that share a file
  /// become one variable. A tensor that is neither persistent nor written becomes a constant
  /// instead, if it is small (`getConstant`) or a causal mask (`getTriangle`). Inserts the ops at
  /// the builder's insertion point.
  static llvm::Expected<VariableTable> create(const ExportedProgram &program,
                                              const Archive &archive,
                                              const llvm::StringSet<> &written,
                                              mlir::OpBuilder &builder);

  /// Returns the variable of a graph input, or null if the input is a constant or a user input.
  ps::VariableOp getVariable(llvm::StringRef input) const { return variables.lookup(input); }
  mlir::ElementsAttr getConstant(llvm::StringRef input) const { return constants.lookup(input); }
  /// Returns the type of a causal mask (bools that are true where column <= row), or null for other
  /// inputs.
  mlir::RankedTensorType getTriangle(llvm::StringRef input) const {
    return triangles.lookup(input);
  }

private:
  ps::VariableOp make(const InputSpec &input, llvm::ArrayRef<std::string> names,
                      mlir::RankedTensorType type, llvm::StringRef location, bool frozen,
                      mlir::OpBuilder &builder);

  llvm::StringMap<ps::VariableOp> variables;
  llvm::StringMap<mlir::ElementsAttr> constants;
  llvm::StringMap<mlir::RankedTensorType> triangles;
};

} // namespace parashard::import

#endif
