// Emits kernels for a CPU: a loop over rows with loops over vectors of columns.
#ifndef PARASHARD_LIB_CODEGEN_CPU_CPUKERNEL_H
#define PARASHARD_LIB_CODEGEN_CPU_CPUKERNEL_H

#include "lib/Codegen/KernelEmitter.h"

namespace parashard::codegen {

class CpuKernel : public KernelEmitter {
public:
  /// Creates the emitter. `width` is the number of f32 lanes of the target's vectors.
  CpuKernel(ps::FusedOp op, const fusion::Piece &piece, const fusion::IterationSpace &space,
            const FusedContext &context, mlir::ModuleOp module, llvm::StringRef name,
            unsigned width)
      : KernelEmitter(op, piece, space, context, module, name), width(width) {}

  mlir::Value reduce(ps::ReductionKind kind, const Column &column) override;
  mlir::Value read(const std::shared_ptr<Kept> &kept) override;

private:
  void beginFunction(llvm::StringRef name) override;
  mlir::Value takeBuffer(unsigned number) override;
  void emitRows() override;
  mlir::Value chunkNumber() override;
  void forColumns(unsigned unroll, llvm::SmallVectorImpl<mlir::Value> &carried, Body body) override;
  /// Visits all columns, as forColumns does. If `runLength` is not 0, calls `endRun` to emit code
  /// after each run of `runLength` iterations.
  void forColumnsInRuns(unsigned unroll, llvm::SmallVectorImpl<mlir::Value> &carried, Body body,
                        int64_t runLength, llvm::function_ref<void()> endRun);
  void forElements(int64_t total, int64_t block, KernelCall &call,
                   llvm::function_ref<void()> visit) override;
  int64_t chooseGrain(int64_t columns) const;

  unsigned width;
  mlir::Value buffersArgument, lo, hi;
};

} // namespace parashard::codegen

#endif
