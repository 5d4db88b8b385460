// Reads the metadata of torch's exporter: source locations of nodes, and kinds of initializers.
#ifndef PARASHARD_LIB_IMPORT_ONNX_METADATA_H
#define PARASHARD_LIB_IMPORT_ONNX_METADATA_H

#include "lib/Import/Onnx/Model.h"
#include "lib/Import/SourceLocation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace parashard::import {

/// Returns the module path and Python line of a node, or `caller` if the node has neither.
SourceLocation getSourceLocation(const onnx::NodeProto &node, const SourceLocation &caller);

/// Returns the label smoothing of a loss in the model; 0 if there is none, or if it is not known.
double getLabelSmoothing(const onnx::NodeProto &node);

/// Returns the row that an embedding of the model treats as padding. This row gets no gradient.
std::optional<int64_t> getPaddingIndex(const onnx::NodeProto &node);

/// Returns true if the exporter's optimizer fused a batch norm of the model into this node.
bool isFusedBatchNorm(const onnx::NodeProto &node);

/// The metadata about the model's state.
struct Signature {
  /// False for files without this metadata, from other exporters. Then only the running statistics
  /// of batch norms are known.
  bool isKnown = false;
  /// "PARAMETER", "BUFFER", ... by the name in the model.
  llvm::StringMap<std::string> kinds;
  /// Buffers that the model does not save.
  llvm::StringSet<> transient;
  /// All parameters of the model in its order, including those that are not in the file.
  std::vector<std::string> parameters;
};
Signature readSignature(const onnx::GraphProto &graph);

} // namespace parashard::import

#endif
