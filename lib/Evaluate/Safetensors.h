// Declares the reader and writer of .safetensors files.
#ifndef PARASHARD_LIB_EVALUATE_SAFETENSORS_H
#define PARASHARD_LIB_EVALUATE_SAFETENSORS_H

#include "dialects/ps/Tensor.h"
#include "llvm/Support/Error.h"
#include <map>
#include <string>

namespace parashard::evaluate {

using NamedTensors = std::map<std::string, ps::Tensor>;

/// Reads every tensor of the file, by name. Errors name the file and the cause.
llvm::Expected<NamedTensors> readSafetensors(llvm::StringRef path, mlir::MLIRContext &context);
/// Writes the tensors atomically.
llvm::Error writeSafetensors(llvm::StringRef path, const NamedTensors &tensors);

} // namespace parashard::evaluate

#endif
