// Declares the search for fields of an ONNX file that the importer does not read.
#ifndef PARASHARD_LIB_IMPORT_ONNX_UNREADFIELDS_H
#define PARASHARD_LIB_IMPORT_ONNX_UNREADFIELDS_H

#include "lib/Import/Onnx/onnx.pb.h"
#include <string>

namespace parashard::import {

/// Describes the first field that `onnx.proto` does not declare, and the message that contains the
/// field. Returns "" if all fields are declared. Example: "the field 'quantization_annotation' (14)
/// of the graph 'g'".
std::string findUnreadField(const onnx::ModelProto &model);
std::string findUnreadField(const onnx::TensorProto &tensor);

} // namespace parashard::import

#endif
