// Builds the model's state from an ONNX file: trained initializers, constants, and parameters that
// the exporter changed.
#ifndef PARASHARD_LIB_IMPORT_ONNX_VARIABLES_H
#define PARASHARD_LIB_IMPORT_ONNX_VARIABLES_H

#include "lib/Import/Onnx/Convert.h"
#include "lib/Import/Onnx/Metadata.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// A parameter of the model that the file does not have under its own name.
struct MissingParameter {
  std::string name;
  std::string shared;    ///< initializer that the module reads instead; empty: none
  bool isMerged = false; ///< the exporter's optimizer merged parameters with equal values
  /// Parameter of a batch norm that the exporter's optimizer fused into the weight before the batch
  /// norm.
  bool isFused = false;
  bool isOfParent = false; ///< `X.bias`, which no node reads, next to a child's `X.decoder.bias`
};

/// Finds the missing parameters, and the initializers that their modules read instead.
std::vector<MissingParameter> findMissing(const OnnxModel &model, const Signature &signature,
                                          llvm::ArrayRef<const onnx::NodeProto *> liveNodes);
/// Returns true if the exporter's optimizer created constants. Otherwise, missing parameters are
/// tied or unused.
bool hasFoldedConstants(const OnnxModel &model, const Signature &signature);
/// Returns a warning about parameters that cannot be trained as in the model; empty if there are
/// none.
std::string describeMissing(llvm::ArrayRef<MissingParameter> missing, bool isFolded);
/// Returns a warning about parameters that the file also has as a transposed copy (a tied head);
/// empty if there are none.
std::string describeFoldedCopies(const OnnxModel &model, const Signature &signature);
/// Returns a note about parameters whose names are lost, although nothing was folded; empty if
/// there are none.
std::string describeUnnamed(llvm::ArrayRef<MissingParameter> missing, bool isFolded);
/// Returns a note about parameters that are treated as a child's (`isOfParent`); empty if there are
/// none.
std::string describeOfParents(llvm::ArrayRef<MissingParameter> missing);

/// Creates variables and constants for the initializers that the graph reads.
class OnnxVariables {
public:
  OnnxVariables(const OnnxModel &model, const Signature &signature,
                llvm::ArrayRef<MissingParameter> missing)
      : model(model), signature(signature), missing(missing) {}

  /// Creates a `ps.variable` for each initializer that is not a small constant. Fails for dtypes
  /// that are not supported.
  llvm::Error makeVariables(const llvm::StringSet<> &read, mlir::OpBuilder &builder);
  /// Defines the reads of variables, and the constants, in the function.
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
