// The model's state from an ONNX file: which initializers are trained, which are constants, and
// what the exporter did to parameters.
#ifndef PARASHARD_LIB_IMPORT_ONNX_VARIABLES_H
#define PARASHARD_LIB_IMPORT_ONNX_VARIABLES_H

#include "lib/Import/Onnx/Convert.h"
#include "lib/Import/Onnx/Metadata.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// A parameter of the model that the file does not have under its own name.
struct MissingParameter {
  std::string name;
  std::string shared;    ///< the initializer that its module reads in its place; empty: none
  bool isMerged = false; ///< the shared values are all equal: the exporter's optimizer did it
  bool isFused = false; ///< of a batch norm that the optimizer multiplied into the weight before it
  bool isOfParent = false; ///< `X.bias`, which no node reads, beside a child's `X.decoder.bias`
};

/// Parameters that are missing, with what their modules read instead.
std::vector<MissingParameter> findMissing(const OnnxModel &model, const Signature &signature,
                                          llvm::ArrayRef<const onnx::NodeProto *> liveNodes);
/// Whether the exporter's optimizer made constants of its own: else what is missing is tied, or
/// unused.
bool hasFoldedConstants(const OnnxModel &model, const Signature &signature);
/// A warning about parameters that cannot be trained as the model had them; empty: there are none.
std::string describeMissing(llvm::ArrayRef<MissingParameter> missing, bool isFolded);
/// A warning about parameters of which the file has a transposed copy too (a tied head); empty:
/// there are none.
std::string describeFoldedCopies(const OnnxModel &model, const Signature &signature);
/// A line about parameters whose names are lost, though nothing was folded; empty: there are none.
std::string describeUnnamed(llvm::ArrayRef<MissingParameter> missing, bool isFolded);
/// A line about those that are taken for a child's (`isOfParent`); empty: there are none.
std::string describeOfParents(llvm::ArrayRef<MissingParameter> missing);

/// Makes variables and constants of the initializers that the graph reads.
class OnnxVariables {
public:
  OnnxVariables(const OnnxModel &model, const Signature &signature,
                llvm::ArrayRef<MissingParameter> missing)
      : model(model), signature(signature), missing(missing) {}

  /// A `ps.variable` for each that is no small constant. Fails for dtypes that are not supported.
  llvm::Error makeVariables(const llvm::StringSet<> &read, mlir::OpBuilder &builder);
  /// Their reads, and the constants, in the function.
  llvm::Error defineValues(const llvm::StringSet<> &read, OnnxScope &scope,
                           mlir::OpBuilder &builder);

private:
  ps::VariableKind getKind(const OnnxTensor &tensor, mlir::Type element) const;
  llvm::Expected<mlir::RankedTensorType> getType(const OnnxTensor &tensor,
                                                 mlir::MLIRContext *context) const;
  llvm::Error makeVariable(const OnnxTensor &tensor, mlir::RankedTensorType type,
                           ps::VariableKind kind, mlir::OpBuilder &builder);

  const OnnxModel &model;
  const Signature &signature;
  llvm::ArrayRef<MissingParameter> missing;
  llvm::StringMap<ps::VariableOp> variables;
};

} // namespace parashard::import

#endif
