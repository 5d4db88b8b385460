// The types that an ONNX file declares for values, compared with those that the importer computes.
#ifndef PARASHARD_LIB_IMPORT_ONNX_DECLAREDTYPES_H
#define PARASHARD_LIB_IMPORT_ONNX_DECLAREDTYPES_H

#include "lib/Import/Onnx/Convert.h"

namespace parashard::import {

/// Fails where an output or an intermediate value of the graph is declared with another element
/// type or number of dims than it has. Sizes of dims that differ are a warning: exporters write
/// those of the example where only the inputs' dims are dynamic.
mlir::LogicalResult checkDeclaredTypes(const onnx::GraphProto &graph, const OnnxScope &scope);

} // namespace parashard::import

#endif
