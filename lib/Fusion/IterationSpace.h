// Represents the iteration space of a group of ops (rows x columns), and the elements that each op
// reads and writes in it.
#ifndef PARASHARD_LIB_FUSION_ITERATIONSPACE_H
#define PARASHARD_LIB_FUSION_ITERATIONSPACE_H

#include "Factors.h"
#include "lib/IR/OpTimes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace parashard::fusion {

/// The index of one dim: offset + scale x (linear index over `factors`).
struct DimIndex {
  int64_t offset = 0;
  int64_t scale = 1;
  FactorList factors;
};
using Index = llvm::SmallVector<DimIndex, 4>;

/// The element that an operand reads. `source` is a value from outside the group, a result computed
/// in the group, a constant or an iota. The element is at `offset` + sum of `strides[i]` x (index
/// in dim i of the space).
struct Access {
  mlir::Value source;
  Index index;
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> strides; ///< one per dim of the space; columns are last
};

/// An output of a group.
struct Output {
  Access value;  ///< the value to store
  Access buffer; ///< the position in the result's dense buffer (`source` is the yielded value)
};

/// One output of a group before analysis. With `offsets`, the value is only a part of the result:
/// along each dim i, the part begins at `offsets[i]` and occupies every `scales[i]`-th element.
/// Examples: one operand of a concatenation, the inside of a pad.
struct OutputRequest {
  mlir::Value value;
  mlir::RankedTensorType bufferType;
  llvm::SmallVector<int64_t, 4> offsets; ///< empty: the whole result
  llvm::SmallVector<int64_t, 4> scales;
};

/// How a reduction maps to the space.
enum class ReductionLayout {
  /// Reduces over the columns: one value per row.
  Row,
  /// Reduces over rows: one partial row per chunk of rows. A second kernel adds the chunks in
  /// order.
  Column
};

/// The space shared by ops that form one kernel.
class IterationSpace {
public:
  /// Analyzes `ops` (in program order, with movement ops) for the requested outputs. `maxChunks`
  /// is the option `max-chunks` of ps-fuse. Fails if the ops do not fit one space; `getReason`
  /// then returns the reason.
  mlir::LogicalResult analyze(llvm::ArrayRef<mlir::Operation *> ops,
                              llvm::ArrayRef<OutputRequest> outputs, int64_t maxChunks = 0);
  llvm::StringRef getReason() const { return reason; }

  /// Returns the sizes of the space's dims, outer to inner; the last dim is the columns.
  llvm::ArrayRef<int64_t> getSizes() const { return sizes; }
  int64_t getColumns() const { return sizes.back(); }
  int64_t getRows() const;
  /// Returns true if the space is one dim that no op uses as a row, so that it can be split
  /// anywhere.
  bool isFlat() const { return flat; }
  /// Returns true if an op uses whole rows: the op's result in one column depends on other columns.
  bool hasRowOps() const { return hasRowOp; }

  const Access &getAccess(mlir::OpOperand &operand) const {
    return accesses.find(&operand)->second;
  }
  llvm::ArrayRef<Output> getOutputs() const { return outputs; }
  /// Returns the row-major position of each element of a `ps.dropout`'s result.
  const Access &getResultAccess(mlir::Value result) const { return results.find(result)->second; }
  /// Returns true if a value computed in the group varies along the columns.
  bool hasColumns(mlir::Value computed) const;
  ReductionLayout getLayout(mlir::Operation *reduce) const { return layouts.find(reduce)->second; }
  /// Returns the ops of the group that compute (neither movement nor constants), in order.
  llvm::ArrayRef<mlir::Operation *> getComputeOps() const { return compute; }
  bool hasColumnReduction() const { return columnReduction; }
  /// Returns the number of rows of one chunk of a column reduction.
  int64_t getChunkRows() const { return chunkRows; }
  /// Returns the number of chunks of rows for each result of a column reduction.
  int64_t getChunksPerResult() const { return chunksPerResult; }
  int64_t getChunks() const { return chunksPerResult * keptRows; }

private:
  bool fail(llvm::StringRef why) {
    reason = why;
    return false;
  }
  Index freshIndex(llvm::ArrayRef<int64_t> shape);
  bool pull(mlir::Value value, Index index, Access &access);
  bool pullReshape(mlir::Operation *op, const Index &index, Index &operandIndex);
  bool addOp(mlir::Operation *op);
  bool addReduce(ps::ReduceOp op);
  bool addOutput(const OutputRequest &request);
  bool checkDims();
  bool chooseColumns();
  bool orderLeaves();
  bool findLayouts();
  bool isCountable();
  bool coalesce();
  bool checkColumnSums();
  bool checkOutputs();
  FactorList resolveAll(const Index &index) const;
  void computeStrides(Access &access, llvm::ArrayRef<unsigned> leaves);
  bool isInside(mlir::Value value) const;
  template <typename Fn> void forEachAccess(Fn fn);

  Factors factors;
  llvm::DenseSet<mlir::Operation *> members;
  llvm::SmallVector<mlir::Operation *> compute;
  llvm::DenseMap<mlir::Value, Index> computed;
  llvm::DenseMap<mlir::Operation *, Index> spaces; ///< index of operand 0: Row ops, reductions
  llvm::DenseMap<mlir::OpOperand *, Access> accesses;
  llvm::DenseMap<mlir::Value, Access> results;
  llvm::DenseMap<mlir::Operation *, ReductionLayout> layouts;
  llvm::SmallVector<Output, 4> outputs;
  llvm::SmallVector<unsigned> leaves;                       ///< outer to inner
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>> groups; ///< leaves of each dim of the space
  llvm::SmallVector<int64_t, 4> sizes;
  FactorList columnLeaves;
  llvm::DenseSet<unsigned> keptLeaves;
  bool hasRowOp = false, columnReduction = false, flat = false;
  int64_t maxChunks = 0, chunkRows = 0, chunksPerResult = 0, keptRows = 1;
  std::string reason;
};

using ir::isView;
/// Returns true for the ops that kernels compute: Elementwise, Row, Movement.
bool isFusable(mlir::Operation *op);

} // namespace parashard::fusion

#endif
