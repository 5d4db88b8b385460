// Declares the evaluation of collectives on one tensor per rank.
#ifndef PARASHARD_LIB_EVALUATE_COLLECTIVES_H
#define PARASHARD_LIB_EVALUATE_COLLECTIVES_H

#include "lib/Evaluate/Layout.h"

namespace parashard::evaluate {

/// Combines the tensors of a group's members, in group order. Accumulates 16-bit floats in f32, and
/// rounds the result once.
ps::Tensor reduceGroup(const PerRank &operands, llvm::ArrayRef<int64_t> group,
                       ps::ReductionKind kind);
/// These functions evaluate one collective on all ranks. Reductions combine the terms in ascending
/// shard order, and round each partial result to f32 (f64 for f64 tensors).
PerRank allReduce(const Layout &layout, const PerRank &operands, ps::ReductionKind kind,
                  mlir::ArrayAttr axes);
PerRank reduceScatter(const Layout &layout, const PerRank &operands, ps::ReductionKind kind,
                      mlir::ArrayAttr axes, int64_t dim);
PerRank allGather(const Layout &layout, const PerRank &operands, mlir::ArrayAttr axes, int64_t dim);
PerRank shardSlice(const Layout &layout, const PerRank &operands, mlir::ArrayAttr axes, int64_t dim,
                   mlir::RankedTensorType resultType);

/// Returns the results of a collective, a slice or a shard index of the dialect `ps`; nullopt for
/// other ops.
std::optional<PerRank> evaluateCollective(mlir::Operation *op, const Layout &layout,
                                          const PerRank &operands);

} // namespace parashard::evaluate

#endif
