// Declares how variables are created from the initializers of an ONNX file.
#ifndef PARASHARD_LIB_IMPORT_ONNX_VARIABLES_H
#define PARASHARD_LIB_IMPORT_ONNX_VARIABLES_H

#include "lib/Import/Onnx/Convert.h"
#include "lib/Import/Onnx/Metadata.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// A parameter of the torch model that the file does not contain under its name.
struct MissingParameter {
  std::string name;
  std::string shared; ///< initializer that the parameter's module reads instead, or empty
  /// True if the exporter merged the parameter with `shared`, because their values are equal.
  bool isMerged = false;
  /// True for parameters of a batch norm that the exporter fused into the preceding weight.
  bool isFused = false;
  /// True if `shared` is a parameter of a child module, such as `X.decoder.bias` for `X.bias`.
  bool isOfParent = false;
};

/// Returns the parameters that the file does not contain under their names, with the initializers
/// that their modules read instead.
std::vector<MissingParameter> findMissing(const OnnxModel &model, const Signature &signature,
                                          llvm::ArrayRef<const onnx::NodeProto *> liveNodes);
/// Returns true if the exporter folded constants. Otherwise, missing parameters are tied or unused.
bool hasFoldedConstants(const OnnxModel &model, const Signature &signature);
/// Returns a warning about parameters that cannot be trained as in the torch model, or "".
std::string describeMissing(llvm::ArrayRef<MissingParameter> missing, bool isFolded);
/// Returns a warning about parameters of which the file also contains a transposed copy as a
/// constant (a tied head), or "".
std::string describeFoldedCopies(const OnnxModel &model, const Signature &signature);
/// Returns a note about parameters that are not in the file, although no constant was folded.
/// Returns "" if there are none.
std::string describeUnnamed(llvm::ArrayRef<MissingParameter> missing, bool isFolded);
/// Returns a note about parameters that are treated as other names of a child module's parameter
/// (`isOfParent`), or "".
std::string describeOfParents(llvm::ArrayRef<MissingParameter> missing);

/// Creates variables and constants for initializers.
class OnnxVariables {
public:
  OnnxVariables(const OnnxModel &model, const Signature &signature,
                llvm::ArrayRef<MissingParameter> missing)
      : model(model), signature(signature), missing(missing) {}

  /// Creates a `ps.variable` for each initializer that is in `read` or in the signature. Skips
  /// small constants and causal masks, which `defineValues` creates. Fails for dtypes that are not
  /// supported.
  llvm::Error makeVariables(const llvm::StringSet<> &read, mlir::OpBuilder &builder);
  /// Creates the reads of variables, and the small constants and causal masks, in the function.
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
