// What both ps-fuse and the kernel emitters know about a ps.fused op: its kernels and their spaces.
#ifndef PARASHARD_LIB_FUSION_FUSED_H
#define PARASHARD_LIB_FUSION_FUSED_H

#include "IterationSpace.h"

namespace parashard::fusion {

/// One kernel of a fused op: the outputs that it writes. Most have one piece with all results; a
/// concatenation has one per operand, a pad one for its inside (`zeroFirst`: the rest is zero).
struct Piece {
  llvm::SmallVector<OutputRequest, 4> outputs;
  llvm::SmallVector<unsigned, 4> results; ///< the fused op's result that each output belongs to
  bool zeroFirst = false;
};

/// The pieces of a group of ops with these outputs; fails where a concat or pad is not the only
/// output.
mlir::FailureOr<llvm::SmallVector<Piece, 1>> getPieces(mlir::ValueRange outputs);
llvm::SmallVector<mlir::Operation *> getBodyOps(ps::FusedOp op);

/// How a fused op's result reaches memory. A column reduction goes through partial rows in the
/// workspace, unless one chunk makes one result row.
bool needsPartials(const IterationSpace &space, mlir::Value output, bool accumulates);

/// Bytes of the partial rows of all column reductions of the group, each aligned to 64.
int64_t getPartialBytes(const IterationSpace &space, mlir::Type element);

/// Bytes of scratch that the kernels of `op` need beside their results: `ps.workspace`, set by
/// ps-fuse.
inline constexpr llvm::StringLiteral kWorkspaceMark = "ps.workspace";
/// On ps.fused, the same: into how many chunks of rows its sums over rows are cut at most, where
/// ps-fuse was told.
inline constexpr llvm::StringLiteral kMostChunksMark = "ps.most_chunks";
int64_t getMostChunks(ps::FusedOp op);
/// On ps.fused, once code is made of it: the names of the kernels that it calls.
inline constexpr llvm::StringLiteral kKernelsMark = "ps.kernels";
/// On ps.write: the value may be computed straight into the variable's buffer; set by ps-fuse.
inline constexpr llvm::StringLiteral kInPlaceMark = "ps.in_place";

} // namespace parashard::fusion

#endif
