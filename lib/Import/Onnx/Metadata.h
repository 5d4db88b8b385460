// Declares access to the metadata that torch's exporter writes: source locations of nodes, and
// kinds of initializers.
#ifndef PARASHARD_LIB_IMPORT_ONNX_METADATA_H
#define PARASHARD_LIB_IMPORT_ONNX_METADATA_H

#include "lib/Import/Onnx/Model.h"
#include "lib/Import/SourceLocation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace parashard::import {

/// Returns the module path and Python line of a node. If the metadata has no Python line, takes the
/// line from `caller`. Without any metadata, returns `caller`.
SourceLocation getSourceLocation(const onnx::NodeProto &node, const SourceLocation &caller);

/// Returns the label smoothing of the loss in the torch model. Returns 0 if the loss has none, or
/// if the metadata does not record it.
double getLabelSmoothing(const onnx::NodeProto &node);

/// Returns the `padding_idx` of an embedding, if it has one. The table row with this index has no
/// gradient.
std::optional<int64_t> getPaddingIndex(const onnx::NodeProto &node);

/// Returns true if the exporter fused a batch norm into this convolution or matmul.
bool isFusedBatchNorm(const onnx::NodeProto &node);

/// The metadata about parameters, buffers and constants.
struct Signature {
  /// False for files of other exporters, which do not have this metadata. For such files, only the
  /// kinds of inputs of BatchNormalization and Resize are known.
  bool isKnown = false;
  /// "PARAMETER", "BUFFER" or another kind, by name in the torch model.
  llvm::StringMap<std::string> kinds;
  /// Buffers that are not persistent: state_dict omits them.
  llvm::StringSet<> transient;
  /// All parameters in the order of the torch model, including parameters that are not in the file.
  std::vector<std::string> parameters;
};
Signature readSignature(const onnx::GraphProto &graph);

} // namespace parashard::import

#endif
