// Declares a check that compares two types of a value: the type that the ONNX file declares, and
// the type that the importer computes.
#ifndef PARASHARD_LIB_IMPORT_ONNX_DECLAREDTYPES_H
#define PARASHARD_LIB_IMPORT_ONNX_DECLAREDTYPES_H

#include "lib/Import/Onnx/Convert.h"

namespace parashard::import {

/// Fails if an output or intermediate value has another element type or number of dims than the
/// file declares. Warns once if only sizes differ: some exporters write the sizes of their example
/// input even if dims are dynamic.
mlir::LogicalResult checkDeclaredTypes(const onnx::GraphProto &graph, const OnnxScope &scope);

} // namespace parashard::import

#endif
