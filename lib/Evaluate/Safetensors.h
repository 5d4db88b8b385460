// Declares the reader and writer of .safetensors files.
#ifndef PARASHARD_LIB_EVALUATE_SAFETENSORS_H
#define PARASHARD_LIB_EVALUATE_SAFETENSORS_H

#include "dialects/ps/Tensor.h"
#include "llvm/Support/Error.h"
#include <map>
#include <string>

namespace parashard::evaluate {

using NamedTensors = std::map<std::string, ps::Tensor>;

/// Reads all tensors of a file, by name. Errors name the file and the cause.
llvm::Expected<NamedTensors> readSafetensors(llvm::StringRef path, mlir::MLIRContext &context);
/// Writes tensors to a file, and replaces an existing file atomically. Fails if a name is not
/// UTF-8, or if the file cannot be written.
llvm::Error writeSafetensors(llvm::StringRef path, const NamedTensors &tensors);

} // namespace parashard::evaluate

#endif
