// What torch's exporter writes beside the graph: where nodes come from, and what initializers were
// in the model.
#ifndef PARASHARD_LIB_IMPORT_ONNX_METADATA_H
#define PARASHARD_LIB_IMPORT_ONNX_METADATA_H

#include "lib/Import/Onnx/Model.h"
#include "lib/Import/SourceLocation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace parashard::import {

/// The module path and Python line of a node; `caller` where the node has none of its own.
SourceLocation getPlace(const onnx::NodeProto &node, const SourceLocation &caller);

/// The label smoothing that a loss was called with in the model; 0: none, or not known.
double getLabelSmoothing(const onnx::NodeProto &node);

/// The row of its table that an embedding of the model treats as padding: it gets no gradient.
std::optional<int64_t> getPaddingIndex(const onnx::NodeProto &node);

/// Whether a product has taken the place of a batch norm of the model.
bool isFusedBatchNorm(const onnx::NodeProto &node);

/// What the model says about its own state.
struct Signature {
  /// False for files without this metadata (other exporters): nothing is known but what the running
  /// statistics of batch norms are.
  bool isKnown = false;
  /// "PARAMETER", "BUFFER", ... by the name in the model.
  llvm::StringMap<std::string> kinds;
  /// Buffers that the model does not save.
  llvm::StringSet<> transient;
  /// All parameters of the model in its order, whether the file has them or not.
  std::vector<std::string> parameters;
};
Signature readSignature(const onnx::GraphProto &graph);

} // namespace parashard::import

#endif
