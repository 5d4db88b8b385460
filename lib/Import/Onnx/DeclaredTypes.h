// Declares the comparison of the types that an ONNX file declares for values with the computed
// types.
#ifndef PARASHARD_LIB_IMPORT_ONNX_DECLAREDTYPES_H
#define PARASHARD_LIB_IMPORT_ONNX_DECLAREDTYPES_H

#include "lib/Import/Onnx/Convert.h"

namespace parashard::import {

/// Fails if the file declares another element type or number of dims for an output or intermediate
/// value. Warns once if it declares other sizes, because some exporters write the sizes of their
/// example input even if dims are dynamic.
mlir::LogicalResult checkDeclaredTypes(const onnx::GraphProto &graph, const OnnxScope &scope);

} // namespace parashard::import

#endif
