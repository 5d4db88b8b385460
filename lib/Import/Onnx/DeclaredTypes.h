// Compares the types that an ONNX file declares for values with those that the importer computes.
#ifndef PARASHARD_LIB_IMPORT_ONNX_DECLAREDTYPES_H
#define PARASHARD_LIB_IMPORT_ONNX_DECLAREDTYPES_H

#include "lib/Import/Onnx/Convert.h"

namespace parashard::import {

/// Fails if an output or an intermediate value is declared with another element type or number of
/// dims than it has. Different dim sizes are a warning, because some exporters write the sizes of
/// their example input even if the inputs' dims are dynamic.
mlir::LogicalResult checkDeclaredTypes(const onnx::GraphProto &graph, const OnnxScope &scope);

} // namespace parashard::import

#endif
