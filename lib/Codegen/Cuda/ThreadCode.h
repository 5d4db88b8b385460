// What a kernel asks of the machine that runs its threads: who it is, to wait, to exchange values.
// As instructions of a GPU, or, for replay on a CPU, as calls of what runs the threads there.
#ifndef PARASHARD_LIB_CODEGEN_CUDA_THREADCODE_H
#define PARASHARD_LIB_CODEGEN_CUDA_THREADCODE_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace parashard::codegen {

inline constexpr unsigned kWarpThreads = 32;

class ThreadCode {
public:
  /// `replays`: code for runtime/device/cuda/Replay.h, else for PTX.
  explicit ThreadCode(bool replays) : replays(replays) {}

  /// Begins a kernel of `block` threads at the end of `module`; insertion goes before its return.
  void begin(mlir::OpBuilder &b, mlir::Location loc, mlir::ModuleOp module, llvm::StringRef name,
             int64_t block);
  /// Parameter `number`, a device pointer; numbers are taken in ascending order.
  mlir::Value takePointer(mlir::OpBuilder &b, mlir::Location loc, unsigned number);
  /// A pointer that becomes the last parameter.
  mlir::Value getLastPointer() const { return last; }
  /// Completes the kernel, which has `count` parameters before the last one.
  void end(mlir::OpBuilder &b, mlir::Location loc, unsigned count);

  /// i64: the thread's index in its block, the block's in the grid.
  mlir::Value threadIndex(mlir::OpBuilder &b, mlir::Location loc);
  mlir::Value blockIndex(mlir::OpBuilder &b, mlir::Location loc);
  void barrier(mlir::OpBuilder &b, mlir::Location loc);
  /// An i32 of the thread whose index is this one's xor `mask`, in the same warp.
  mlir::Value shuffleXor(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, unsigned mask);
  /// Memory that the threads of a block share: a pointer to `count` elements.
  mlir::Value shared(mlir::OpBuilder &b, mlir::Location loc, mlir::ModuleOp module,
                     llvm::StringRef name, mlir::Type element, int64_t count);

private:
  mlir::Value callHook(mlir::OpBuilder &b, mlir::Location loc, unsigned number,
                       mlir::ValueRange operands, bool hasResult);

  bool replays;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value last; ///< stands for the last parameter until its number is known
};

} // namespace parashard::codegen

#endif
