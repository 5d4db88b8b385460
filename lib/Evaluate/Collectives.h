// Declares the evaluation of collectives on one tensor per rank.
#ifndef PARASHARD_LIB_EVALUATE_COLLECTIVES_H
#define PARASHARD_LIB_EVALUATE_COLLECTIVES_H

#include "lib/Evaluate/Layout.h"

namespace parashard::evaluate {

/// Combines the tensors of the members of `group`, in this order. Accumulates 16-bit floats in f32,
/// and rounds only the result.
ps::Tensor reduceGroup(const PerRank &operands, llvm::ArrayRef<int64_t> group,
                       ps::ReductionKind kind);
/// Evaluates an all_reduce on all ranks. The next three functions evaluate other ops in the same
/// way. Reductions combine the terms in ascending order of shard indices. Each partial result is
/// rounded to f32 (f64 for f64 tensors).
PerRank allReduce(const Layout &layout, const PerRank &operands, ps::ReductionKind kind,
                  mlir::ArrayAttr axes);
PerRank reduceScatter(const Layout &layout, const PerRank &operands, ps::ReductionKind kind,
                      mlir::ArrayAttr axes, int64_t dim);
PerRank allGather(const Layout &layout, const PerRank &operands, mlir::ArrayAttr axes, int64_t dim);
PerRank shardSlice(const Layout &layout, const PerRank &operands, mlir::ArrayAttr axes, int64_t dim,
                   mlir::RankedTensorType resultType);

/// Evaluates a collective, a shard slice or a shard index of the dialect `ps`. Returns nullopt for
/// other ops.
std::optional<PerRank> evaluateCollective(mlir::Operation *op, const Layout &layout,
                                          const PerRank &operands);

} // namespace parashard::evaluate

#endif
