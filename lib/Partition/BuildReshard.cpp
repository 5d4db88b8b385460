// Builds the steps of a resharding.
#include "lib/Partition/BuildReshard.h"

using namespace mlir;
using namespace parashard::ps;
using namespace parashard::sharding;

namespace parashard::partition {

using Kind = ReshardStep::Kind;

namespace {
ArrayAttr getAxesAttr(OpBuilder &b, ArrayRef<StringAttr> axes) {
  return b.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()));
}

/// Builds a tensor that equals `value` on the first rank along `axes`, and is zero on the others.
Value buildKeepFirst(OpBuilder &b, Location loc, Value value, ArrayRef<StringAttr> axes) {
  auto type = cast<RankedTensorType>(value.getType());
  auto index =
      ShardIndexOp::create(b, loc, RankedTensorType::get({}, b.getI64Type()), getAxesAttr(b, axes));
  auto first = ConstantOp::create(b, loc, cast<RankedTensorType>(index.getType()), 0.0);
  auto scalarBool = RankedTensorType::get({}, b.getI1Type());
  auto isFirst = CompareOp::create(b, loc, scalarBool, Predicate::Eq, index, first);
  Value everywhere = isFirst;
  if (type.getRank() > 0)
    everywhere =
        BroadcastOp::create(b, loc, type.clone(b.getI1Type()), isFirst, b.getDenseI64ArrayAttr({}));
  auto zero = ConstantOp::create(b, loc, type, 0.0);
  return SelectOp::create(b, loc, type, everywhere, value, zero);
}

Value buildPad(OpBuilder &b, Location loc, Value value, RankedTensorType type, unsigned dim) {
  auto from = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> low(type.getRank(), 0), high(type.getRank(), 0), by(type.getRank(), 1);
  high[dim] = type.getDimSize(dim) - from.getDimSize(dim);
  return PadOp::create(b, loc, type, value, b.getDenseI64ArrayAttr(low),
                       b.getDenseI64ArrayAttr(high), b.getDenseI64ArrayAttr(by));
}

Value buildStep(OpBuilder &b, Location loc, Value value, const ReshardStep &step) {
  auto type = cast<RankedTensorType>(value.getType()).clone(step.shape);
  ArrayAttr axes = getAxesAttr(b, step.axes);
  switch (step.kind) {
  case Kind::Reshape:
    return ReshapeOp::create(b, loc, type, value);
  case Kind::AllReduce:
    return AllReduceOp::create(b, loc, type, step.reduction, value, axes);
  case Kind::ReduceScatter:
    return ReduceScatterOp::create(b, loc, type, step.reduction, value, axes, step.dim);
  case Kind::AllGather:
    return AllGatherOp::create(b, loc, type, value, axes, step.dim);
  case Kind::AllToAll:
    return AllToAllOp::create(b, loc, type, value, axes, step.dim, step.other);
  case Kind::ShardSlice:
    return ShardSliceOp::create(b, loc, type, value, axes, step.dim);
  case Kind::Slice:
    return SliceOp::create(b, loc, value, step.dim, 0, step.shape[step.dim]);
  case Kind::Pad:
    return buildPad(b, loc, value, type, step.dim);
  case Kind::KeepFirst:
    return buildKeepFirst(b, loc, value, step.axes);
  }
  llvm_unreachable("all kinds are handled");
}
} // namespace

Value buildReshard(OpBuilder &builder, Location loc, Value value, ArrayRef<ReshardStep> steps) {
  for (const ReshardStep &step : steps)
    value = buildStep(builder, loc, value, step);
  return value;
}

} // namespace parashard::partition
