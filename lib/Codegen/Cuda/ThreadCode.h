// Generates the thread operations of a kernel: indices, barriers, and exchange of values. These are
// GPU instructions or, for replay on a CPU, calls of the replay runtime.
#ifndef PARASHARD_LIB_CODEGEN_CUDA_THREADCODE_H
#define PARASHARD_LIB_CODEGEN_CUDA_THREADCODE_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace parashard::codegen {

inline constexpr unsigned kWarpThreads = 32;

class ThreadCode {
public:
  /// Generates code for runtime/device/cuda/Replay.h if `replays` is set, else for PTX.
  explicit ThreadCode(bool replays) : replays(replays) {}

  /// Begins a kernel with `block` threads per block, at the end of `module`. Sets the insertion
  /// point before the kernel's return.
  void begin(mlir::OpBuilder &b, mlir::Location loc, mlir::ModuleOp module, llvm::StringRef name,
             int64_t block);
  /// Returns parameter `number`, a device pointer. Numbers must be taken in ascending order.
  mlir::Value takePointer(mlir::OpBuilder &b, mlir::Location loc, unsigned number);
  /// Returns a pointer that becomes the last parameter.
  mlir::Value getLastPointer() const { return last; }
  /// Completes the kernel, which has `count` parameters before the last one.
  void end(mlir::OpBuilder &b, mlir::Location loc, unsigned count);

  /// Returns the index of the thread in its block, or of the block in the grid, as i64.
  mlir::Value threadIndex(mlir::OpBuilder &b, mlir::Location loc);
  mlir::Value blockIndex(mlir::OpBuilder &b, mlir::Location loc);
  void barrier(mlir::OpBuilder &b, mlir::Location loc);
  /// Returns the i32 `value` of another thread of the warp: the thread whose index is this thread's
  /// index xor `mask`.
  mlir::Value shuffleXor(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, unsigned mask);
  /// Returns a pointer to `count` elements of memory that the threads of a block share.
  mlir::Value shared(mlir::OpBuilder &b, mlir::Location loc, mlir::ModuleOp module,
                     llvm::StringRef name, mlir::Type element, int64_t count) const;

private:
  mlir::Value callHook(mlir::OpBuilder &b, mlir::Location loc, unsigned number,
                       mlir::ValueRange operands, bool hasResult);

  bool replays;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value last; ///< placeholder until the number of the last parameter is known
};

} // namespace parashard::codegen

#endif
