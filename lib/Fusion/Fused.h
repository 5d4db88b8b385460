// Describes the kernels of a ps.fused op and their iteration spaces, for ps-fuse and the kernel
// emitters.
#ifndef PARASHARD_LIB_FUSION_FUSED_H
#define PARASHARD_LIB_FUSION_FUSED_H

#include "IterationSpace.h"

namespace parashard::fusion {

/// One kernel of a fused op: the outputs that it writes. Most fused ops have one piece with all
/// results. A concatenation has one piece per non-empty operand. A pad has one piece with
/// `zeroFirst`: the kernel first sets the whole result to zero.
struct Piece {
  llvm::SmallVector<OutputRequest, 4> outputs;
  llvm::SmallVector<unsigned, 4> results; ///< per output: index of the fused op's result
  bool zeroFirst = false;
};

/// Returns the pieces of a group of ops with these outputs. Fails if a concat or pad is not the
/// only output.
mlir::FailureOr<llvm::SmallVector<Piece, 1>> getPieces(mlir::ValueRange outputs);
llvm::SmallVector<mlir::Operation *> getBodyOps(ps::FusedOp op);

/// Returns true if the first kernel of a fused op writes partial rows of `output` to the workspace,
/// and a second kernel combines the partial rows. This is the case for a column reduction that
/// accumulates, has several chunks per result, or has a 16-bit float type.
bool needsPartials(const IterationSpace &space, mlir::Value output, bool accumulates);

/// Returns the bytes of the partial rows of one column reduction with this element type, rounded up
/// to a multiple of 64. Elements of less than 32 bits are stored in 32 bits each.
int64_t getPartialBytes(const IterationSpace &space, mlir::Type element);

/// Returns the option `max-chunks` with which ps-fuse created `op` (`ps.max_chunks`); 0 if the
/// attribute is absent.
int64_t getMaxChunks(ps::FusedOp op);

} // namespace parashard::fusion

#endif
