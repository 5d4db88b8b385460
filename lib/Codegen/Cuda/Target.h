// Compiles kernels in MLIR to the image that the runtime loads onto a GPU, or replays on a CPU.
#ifndef PARASHARD_LIB_CODEGEN_CUDA_TARGET_H
#define PARASHARD_LIB_CODEGEN_CUDA_TARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>

namespace parashard::codegen {

/// A GPU architecture, or `replay`: kernels for a CPU that executes the threads of a GPU
/// (runtime/device/cuda/Replay.h).
class CudaTarget {
public:
  /// Creates the target. `architecture` is sm_80 or later, or replay.
  static llvm::Expected<CudaTarget> create(llvm::StringRef architecture);

  bool replays() const { return !machine; }
  /// Lowers `kernels` in place and returns the image: PTX text, or a shared object for the host.
  /// Fails after a diagnostic.
  mlir::FailureOr<std::string> makeImage(mlir::ModuleOp kernels) const;

private:
  std::shared_ptr<llvm::TargetMachine> machine; ///< null: replay
};

} // namespace parashard::codegen

#endif
