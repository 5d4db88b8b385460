// Declares which dim of each input has the samples.
#ifndef PARASHARD_LIB_TRAINING_BATCHDIMS_H
#define PARASHARD_LIB_TRAINING_BATCHDIMS_H

#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace parashard::training {

/// Sets the batch dims that the user gives (--batch-dim): `INPUT=D`, `INPUT=none`, or `none` for
/// all inputs. INPUT refers to the inputs of this name in `@forward` and in all inference entries.
/// Fails for an unknown input, and if the inputs of a function have different numbers of samples.
mlir::LogicalResult markBatchDims(mlir::ModuleOp module, llvm::ArrayRef<std::string> batchDims);

} // namespace parashard::training

#endif
