// Reads and writes .safetensors files of the evaluator's tensors.
#ifndef PARASHARD_LIB_EVALUATE_SAFETENSORS_H
#define PARASHARD_LIB_EVALUATE_SAFETENSORS_H

#include "dialects/ps/Tensor.h"
#include "llvm/Support/Error.h"
#include <map>
#include <string>

namespace parashard {

using NamedTensors = std::map<std::string, ps::Tensor>;

/// Every tensor of the file, by name. Errors name the file and what is wrong with it.
llvm::Expected<NamedTensors> readSafetensors(llvm::StringRef path, mlir::MLIRContext &context);
/// Writes through a temporary name.
llvm::Error writeSafetensors(llvm::StringRef path, const NamedTensors &tensors);

} // namespace parashard

#endif
