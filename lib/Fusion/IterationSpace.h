// The iteration space of a group of ops: rows x columns, and where each op reads and writes in it.
#ifndef PARASHARD_LIB_FUSION_ITERATIONSPACE_H
#define PARASHARD_LIB_FUSION_ITERATIONSPACE_H

#include "Factors.h"
#include "dialects/ps/Ps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace parashard::fusion {

/// One dim's index: offset + scale x (linear index over `factors`).
struct DimIndex {
  int64_t offset = 0;
  int64_t scale = 1;
  FactorList factors;
};
using Index = llvm::SmallVector<DimIndex, 4>;

/// Where an operand's element comes from: `source` is a value from outside the group, a result
/// computed in the group, a constant or an iota; the element is at `offset` + sum of `strides[i]` x
/// (place in dim i of the space).
struct Access {
  mlir::Value source;
  Index index;
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> strides; ///< by dim of the space, the last: columns
};

/// What a group writes.
struct Output {
  Access value;  ///< what is evaluated
  Access buffer; ///< where it goes, in the result's dense buffer (`source` is the yielded value)
};

/// One output of a group, before analysis. With a `dim`, the value is the part of the result from
/// `offset` on (every `scale`-th place) along that dim: a part of a concatenation, or the inside of
/// a pad.
struct OutputRequest {
  mlir::Value value;
  mlir::RankedTensorType bufferType;
  llvm::SmallVector<int64_t, 4> offsets; ///< empty: the whole
  llvm::SmallVector<int64_t, 4> scales;
};

/// How a reduction lies in the space.
enum class ReductionLayout {
  Row,   ///< over the columns: a value a row
  Column ///< over rows: partial rows per chunk of rows, added in order by a second kernel
};

/// The space shared by ops that are to become one kernel.
class IterationSpace {
public:
  /// Analyses `ops` (in program order, movement ops included) with the outputs asked for.
  /// `mostChunks`: as on ps-fuse. Fails (with `getReason`) where they do not fit one space.
  mlir::LogicalResult analyze(llvm::ArrayRef<mlir::Operation *> ops,
                              llvm::ArrayRef<OutputRequest> outputs, int64_t mostChunks = 0);
  llvm::StringRef getReason() const { return reason; }

  /// Sizes of the space's dims, outer to inner; the last is the columns.
  llvm::ArrayRef<int64_t> getSizes() const { return sizes; }
  int64_t getColumns() const { return sizes.back(); }
  int64_t getRows() const;
  /// True when the space is one dim that no op takes as a row: it may be cut anywhere.
  bool isFlat() const { return flat; }
  /// True when an op takes whole rows: what it makes of one column depends on the others.
  bool hasRowOps() const { return hasRowOp; }

  const Access &getAccess(mlir::OpOperand &operand) const {
    return accesses.find(&operand)->second;
  }
  llvm::ArrayRef<Output> getOutputs() const { return outputs; }
  /// Where the elements of a random op's result are in its row-major order.
  const Access &getResultAccess(mlir::Value result) const { return results.find(result)->second; }
  /// True when a value computed in the group varies along the columns.
  bool hasColumns(mlir::Value computed) const;
  /// Row or Column for a `ps.reduce` of the group.
  ReductionLayout getPlace(mlir::Operation *reduce) const { return places.find(reduce)->second; }
  /// The ops of the group that compute (neither movement nor constants), in order.
  llvm::ArrayRef<mlir::Operation *> getComputeOps() const { return compute; }
  bool hasColumnReduction() const { return columnReduction; }
  /// Rows that one chunk of a column reduction has, and how many chunks give one result.
  int64_t getChunkRows() const { return chunkRows; }
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
  bool placeReductions();
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
  llvm::DenseMap<mlir::Operation *, Index> spaces; ///< operand 0's index of Row ops
  llvm::DenseMap<mlir::OpOperand *, Access> accesses;
  llvm::DenseMap<mlir::Value, Access> results;
  llvm::DenseMap<mlir::Operation *, ReductionLayout> places;
  llvm::SmallVector<Output, 4> outputs;
  llvm::SmallVector<unsigned> leaves;                       ///< outer to inner
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>> groups; ///< leaves of each dim of the space
  llvm::SmallVector<int64_t, 4> sizes;
  FactorList columnLeaves;
  llvm::DenseSet<unsigned> keptLeaves;
  bool hasRowOp = false, columnReduction = false, flat = false;
  int64_t mostChunks = 0, chunkRows = 0, chunksPerResult = 0, keptRows = 1;
  std::string reason;
};

/// True for ops that only say where elements come from and cost nothing when read through.
bool isView(mlir::Operation *op);
/// True for ops that a group may hold: Elementwise, Row, Movement.
bool isFusable(mlir::Operation *op);

} // namespace parashard::fusion

#endif
