// Evaluates collectives with plain loops over the members of each group.
#include "lib/Evaluate/Collectives.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::evaluate {

static void copyElement(Tensor &to, int64_t i, const Tensor &from, int64_t j) {
  if (to.isFloat())
    to.set(i, from.get(j));
  else
    to.setInt(i, from.getInt(j));
}

static RankedTensorType withDim(RankedTensorType type, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return RankedTensorType::get(shape, type.getElementType());
}

/// Returns the slice of `tensor` that begins at `begin` along `dim`, with zeros past the end.
static Tensor takeSlice(const Tensor &tensor, RankedTensorType type, int64_t dim, int64_t begin) {
  Tensor slice(type);
  for (int64_t i = 0; i < slice.size(); ++i) {
    SmallVector<int64_t> index = slice.delinearize(i);
    index[dim] += begin;
    if (index[dim] < tensor.getShape()[dim])
      copyElement(slice, i, tensor, tensor.linearize(index));
  }
  return slice;
}

static void putSlice(Tensor &tensor, const Tensor &slice, int64_t dim, int64_t begin) {
  for (int64_t i = 0; i < slice.size(); ++i) {
    SmallVector<int64_t> index = slice.delinearize(i);
    index[dim] += begin;
    copyElement(tensor, tensor.linearize(index), slice, i);
  }
}

static void accumulate(Tensor &sum, const Tensor &term, ReductionKind kind) {
  for (int64_t i = 0; i < sum.size(); ++i)
    sum.set(i, combine(kind, sum.get(i), term.get(i)));
}

Tensor reduceGroup(const PerRank &operands, ArrayRef<int64_t> group, ReductionKind kind) {
  const Tensor &first = operands[group.front()];
  RankedTensorType type = first.getType();
  bool narrow = type.getElementType().isF16() || type.getElementType().isBF16();
  Tensor sum(narrow ? RankedTensorType::get(type.getShape(), Float32Type::get(type.getContext()))
                    : type);
  for (int64_t i = 0; i < sum.size(); ++i)
    copyElement(sum, i, first, i);
  for (int64_t member : group.drop_front())
    accumulate(sum, operands[member], kind);
  if (!narrow)
    return sum;
  Tensor rounded(type);
  for (int64_t i = 0; i < sum.size(); ++i)
    rounded.set(i, sum.get(i));
  return rounded;
}

PerRank allReduce(const Layout &layout, const PerRank &operands, ReductionKind kind,
                  ArrayAttr axes) {
  PerRank results(operands.size());
  for (int64_t rank = 0; rank < layout.getRankCount(); ++rank)
    results[rank] = reduceGroup(operands, layout.getGroup(rank, axes), kind);
  return results;
}

PerRank reduceScatter(const Layout &layout, const PerRank &operands, ReductionKind kind,
                      ArrayAttr axes, int64_t dim) {
  PerRank sums = allReduce(layout, operands, kind, axes), results(operands.size());
  for (int64_t rank = 0; rank < layout.getRankCount(); ++rank) {
    int64_t members = layout.getGroup(rank, axes).size();
    int64_t size = sums[rank].getShape()[dim] / members;
    results[rank] = takeSlice(sums[rank], withDim(sums[rank].getType(), dim, size), dim,
                              layout.getShardIndex(rank, axes) * size);
  }
  return results;
}

PerRank allGather(const Layout &layout, const PerRank &operands, ArrayAttr axes, int64_t dim) {
  PerRank results(operands.size());
  for (int64_t rank = 0; rank < layout.getRankCount(); ++rank) {
    SmallVector<int64_t> group = layout.getGroup(rank, axes);
    int64_t size = operands[rank].getShape()[dim];
    Tensor whole(withDim(operands[rank].getType(), dim, size * group.size()));
    for (auto [i, member] : llvm::enumerate(group))
      putSlice(whole, operands[member], dim, i * size);
    results[rank] = std::move(whole);
  }
  return results;
}

PerRank shardSlice(const Layout &layout, const PerRank &operands, ArrayAttr axes, int64_t dim,
                   RankedTensorType resultType) {
  PerRank results(operands.size());
  for (int64_t rank = 0; rank < layout.getRankCount(); ++rank)
    results[rank] = takeSlice(operands[rank], resultType, dim,
                              layout.getShardIndex(rank, axes) * resultType.getShape()[dim]);
  return results;
}

static PerRank allToAll(const Layout &layout, const PerRank &operands, AllToAllOp op) {
  PerRank results(operands.size());
  for (int64_t rank = 0; rank < layout.getRankCount(); ++rank) {
    SmallVector<int64_t> group = layout.getGroup(rank, op.getAxes());
    int64_t split = op.getSplit(), concat = op.getConcat();
    int64_t part = operands[rank].getShape()[split] / int64_t(group.size());
    int64_t size = operands[rank].getShape()[concat];
    Tensor result(cast<RankedTensorType>(op.getType()));
    for (auto [i, member] : llvm::enumerate(group)) {
      Tensor slice = takeSlice(operands[member], withDim(operands[member].getType(), split, part),
                               split, layout.getShardIndex(rank, op.getAxes()) * part);
      putSlice(result, slice, concat, i * size);
    }
    results[rank] = std::move(result);
  }
  return results;
}

static PerRank permute(const Layout &layout, const PerRank &operands, PermuteOp op) {
  PerRank results(operands.size());
  for (int64_t rank = 0; rank < layout.getRankCount(); ++rank) {
    SmallVector<int64_t> group = layout.getGroup(rank, op.getAxes());
    int64_t target = op.getTargets()[layout.getShardIndex(rank, op.getAxes())];
    results[group[target]] = operands[rank];
  }
  return results;
}

std::optional<PerRank> evaluateCollective(Operation *op, const Layout &layout,
                                          const PerRank &operands) {
  if (auto reduce = dyn_cast<AllReduceOp>(op))
    return allReduce(layout, operands, reduce.getKind(), reduce.getAxes());
  if (auto scatter = dyn_cast<ReduceScatterOp>(op))
    return reduceScatter(layout, operands, scatter.getKind(), scatter.getAxes(), scatter.getDim());
  if (auto gather = dyn_cast<AllGatherOp>(op))
    return allGather(layout, operands, gather.getAxes(), gather.getDim());
  if (auto exchange = dyn_cast<AllToAllOp>(op))
    return allToAll(layout, operands, exchange);
  if (auto shuffle = dyn_cast<PermuteOp>(op))
    return permute(layout, operands, shuffle);
  if (auto slice = dyn_cast<ShardSliceOp>(op))
    return shardSlice(layout, operands, slice.getAxes(), slice.getDim(),
                      cast<RankedTensorType>(slice.getType()));
  if (auto index = dyn_cast<ShardIndexOp>(op)) {
    PerRank results;
    for (int64_t rank = 0; rank < layout.getRankCount(); ++rank) {
      Tensor tensor(cast<RankedTensorType>(index.getType()));
      tensor.setInt(0, layout.getShardIndex(rank, index.getAxes()));
      results.push_back(std::move(tensor));
    }
    return results;
  }
  return std::nullopt;
}

} // namespace parashard::evaluate
