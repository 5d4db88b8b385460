// The model's state: which variables it has, their names and where their values lie.
#ifndef PARASHARD_LIB_IMPORT_PT2_VARIABLES_H
#define PARASHARD_LIB_IMPORT_PT2_VARIABLES_H

#include "dialects/ps/Ps.h"
#include "lib/Import/Pt2/Archive.h"
#include "lib/Import/Pt2/Graph.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// The variables of a program: `bySymbol` of each input that is state, made at the module's front.
class VariableTable {
public:
  /// Makes a `ps.variable` for each parameter, buffer and constant. Names that share a file are one
  /// variable; what is small, not saved with the model and never written is a constant instead
  /// (`getConstant`).
  static llvm::Expected<VariableTable> create(const ExportedProgram &program,
                                              const Archive &archive,
                                              const llvm::StringSet<> &written,
                                              mlir::OpBuilder &builder);

  /// The variable of a graph input; null when it is a constant or no state.
  ps::VariableOp getVariable(llvm::StringRef input) const { return variables.lookup(input); }
  mlir::ElementsAttr getConstant(llvm::StringRef input) const { return constants.lookup(input); }
  /// The type of a bool constant that is true where its last dim's index is at most that of the dim
  /// before; null for others.
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
