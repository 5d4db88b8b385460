// Emits kernels for a GPU: a group of threads per row, and vectors of columns per thread.
#ifndef PARASHARD_LIB_CODEGEN_CUDA_CUDAKERNEL_H
#define PARASHARD_LIB_CODEGEN_CUDA_CUDAKERNEL_H

#include "ThreadCode.h"
#include "lib/Codegen/KernelEmitter.h"

namespace parashard::codegen {

/// The mapping of a block's threads to rows and columns. A group of `threads` threads handles a
/// row, or one of the row's `tiles` parts. In each step, thread t of a group handles `width`
/// columns, beginning with column (step x threads + t) x `width` of its row or part. Example: with
/// 256 threads, width 4 and 2 steps, thread 3 handles columns 12 to 15 and 1036 to 1039.
struct ThreadLayout {
  int64_t block = 256;   ///< threads per block
  int64_t threads = 256; ///< threads per group: a power of two
  unsigned width = 1;    ///< columns per vector, that is, per memory access
  int64_t steps = 1;     ///< vectors per thread; 0: a loop, and the row is not in registers
  int64_t tiles = 1;     ///< above 1: one vector per thread, from one tile of the row
  int64_t rowsOfBlock() const { return block / threads; }
};

/// Returns the layout of a kernel whose rows are not cut into tiles, with vectors of `width`
/// columns.
ThreadLayout chooseLayout(int64_t rows, int64_t columns, unsigned width);
/// Returns the layout of a kernel whose columns are independent, so that rows can be cut into
/// tiles.
ThreadLayout chooseTiles(int64_t columns, unsigned width);

class CudaKernel : public KernelEmitter {
public:
  CudaKernel(ps::FusedOp op, const fusion::Piece &piece, const fusion::IterationSpace &space,
             const FusedContext &context, mlir::ModuleOp module, llvm::StringRef name,
             bool replays);

  mlir::Value reduce(ps::ReductionKind kind, const Column &column) override;
  mlir::Value read(const std::shared_ptr<Kept> &kept) override;

private:
  void beginFunction(llvm::StringRef name) override;
  void endFunction() override;
  mlir::Value takeBuffer(unsigned number) override;
  void emitRows() override;
  mlir::Value chunkNumber() override;
  void forColumns(unsigned unroll, llvm::SmallVectorImpl<mlir::Value> &carried, Body body) override;
  void forElements(int64_t total, int64_t block, KernelCall &call,
                   llvm::function_ref<void()> visit) override;
  void forSums(int64_t total, int64_t chunks, KernelCall &call,
               llvm::function_ref<void()> visit) override;
  mlir::Value addUpChunks(const Partial &partial, mlir::Value from, int64_t chunks,
                          int64_t total) override;
  KernelCall emitPartialSum(const Partial &partial, int64_t workspace) override;
  void addPartial(Partial &partial, unsigned step) override;
  mlir::Value getStoreCondition() override;
  void beginRowOutputs() override;
  unsigned getAlignment(mlir::Type element) const override;

  unsigned chooseWidth() const;
  bool canSplitRows() const;
  mlir::Value groupNumber();
  mlir::Value isBelow(mlir::Value value, int64_t bound);
  mlir::Value both(mlir::Value x, mlir::Value y);
  /// Returns `row`, or the last of `rows` rows if `row` does not exist. In the second case,
  /// `rowCondition` is false.
  mlir::Value clampRow(mlir::Value row, int64_t rows);
  void emitChunk();
  void storePartials();
  void visitSteps(Body body);
  void visitLoop(llvm::SmallVectorImpl<mlir::Value> &carried, Body body);
  mlir::Value exchange(mlir::Value value, unsigned mask);
  mlir::Value addUpPieces(ps::ReductionKind kind, mlir::Value value, mlir::Value piece);
  mlir::Value reduceWarp(ps::ReductionKind kind, mlir::Value value);
  mlir::Value reduceGroup(ps::ReductionKind kind, mlir::Value value);

  ThreadCode code;
  ThreadLayout layout;
  unsigned bufferCount = 0;    ///< number of buffers of the current function
  mlir::Value thread, block;   ///< i64 indices
  mlir::Value threadOfRow;     ///< index of the thread in its row's group
  mlir::Value rowCondition;    ///< whether the group's row exists; null: always
  mlir::Value columnCondition; ///< whether the current columns exist; null: always
  bool inChunk = false;        ///< inside the loop over the rows of a chunk
  int64_t step = 0;            ///< the step of the current columns, if layout.steps > 0
  unsigned sharedCount = 0;
  int64_t sumPieces = 1; ///< pieces per sum in the kernel that adds up the chunks
  /// The sums of column reductions, if rows are in registers: layout.steps values for each partial.
  llvm::SmallVector<mlir::Value> sums;
};

} // namespace parashard::codegen

#endif
