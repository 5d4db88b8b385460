// Implements dropout, and the global element numbers that determine random numbers.
#include "dialects/ps/RandomSupport.h"
#include "dialects/ps/RowSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace parashard::ps;

//===----------------------------------------------------------------------===//
// Element numbers
//===----------------------------------------------------------------------===//

int64_t ElementNumbers::get(int64_t i) const {
  if (sizes.empty())
    return offset + i;
  int64_t number = offset;
  for (size_t f = sizes.size(); f-- > 0;) {
    number += i % sizes[f] * strides[f];
    i /= sizes[f];
  }
  return number;
}

double DropoutDraws::scale(int64_t i) const {
  if (!active)
    return 1;
  uint64_t counter = uint64_t(context.microBatch) * numbers.globalSize + numbers.get(i);
  return philoxUniform(context.seed, key, context.step, counter) < float(p) ? 0
                                                                            : float(1 / (1 - p));
}

/// Returns the (size, axes) of each factor of a dim, major to minor.
static llvm::SmallVector<std::pair<int64_t, llvm::SmallVector<StringAttr>>>
getFactors(RankedTensorType global, ShardingAttr sharding, unsigned dim) {
  llvm::SmallVector<std::pair<int64_t, llvm::SmallVector<StringAttr>>> factors;
  if (sharding)
    for (FactorAttr factor : sharding.getDims()[dim].getFactors())
      factors.push_back({factor.getSize() ? factor.getSize() : global.getDimSize(dim),
                         llvm::SmallVector<StringAttr>(factor.getAxes())});
  if (factors.empty())
    factors.push_back({global.getDimSize(dim), {}});
  return factors;
}

SplitNumbers parashard::ps::splitElementNumbers(PartitionBuilder &builder, RankedTensorType global,
                                                ShardingAttr sharding) {
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  SplitNumbers split{builder.make<ConstantOp>(scalar, 0.0), global.getNumElements(), {}, {}};
  int64_t stride = 1;
  for (unsigned dim = global.getRank(); dim-- > 0;) {
    auto factors = getFactors(global, sharding, dim);
    for (auto &[size, axes] : llvm::reverse(factors)) {
      int64_t shards = builder.getShards(axes), local = builder.getShardSize(size, axes);
      split.sizes.insert(split.sizes.begin(), local);
      split.strides.insert(split.strides.begin(), stride);
      if (shards > 1) {
        Value step = builder.make<ConstantOp>(scalar, double(local * stride));
        Value own = builder.make<MulOp>(scalar, builder.getShardIndex(axes), step);
        split.offset = builder.make<AddOp>(scalar, split.offset, own);
      }
      stride *= size;
    }
  }
  return split;
}

//===----------------------------------------------------------------------===//
// dropout
//===----------------------------------------------------------------------===//

OpFoldResult DropoutOp::fold(FoldAdaptor adaptor) {
  if (!getTraining() || getP().isZero())
    return getOperand();
  return {};
}

ShardingRule DropoutOp::getShardingRule() {
  auto type = cast<RankedTensorType>(getType());
  ShardingRule rule = ShardingRule::elementwise(type.getShape(), 1, 1);
  rule.operands.resize(getNumOperands()); // key, micro-batch and offset have no dims
  rule.linear = {{0}};
  return rule;
}

LoweringKind DropoutOp::getLoweringKind() { return LoweringKind::Elementwise; }

FailureOr<llvm::SmallVector<Tensor>> DropoutOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                         const EvaluateContext &context) {
  const Tensor &x = operands[0];
  auto draws = DropoutDraws::get(*this, operands, context, x.size(), getP().convertToDouble());
  if (failed(draws))
    return failure();
  Tensor y(x.getType());
  for (int64_t i = 0, n = x.size(); i < n; ++i) {
    double scale = draws->scale(i);
    y.set(i, scale == 0 ? 0 : x.get(i) * scale);
  }
  return llvm::SmallVector<Tensor>{std::move(y)};
}

Value DropoutOp::emitElement(ElementBuilder &e, ValueRange scalars) {
  Value x = scalars[0];
  if (!getTraining() || getP().isZero())
    return x;
  auto [keyIndex, hasKey] = getODSOperandIndexAndLength(1);
  auto [batchIndex, hasBatch] = getODSOperandIndexAndLength(2);
  auto [offsetIndex, hasOffset] = getODSOperandIndexAndLength(3);
  RandomPosition position;
  OpBuilder &b = e.builder();
  if (hasKey)
    position.key = scalars[keyIndex];
  else if (auto key = (*this)->getAttrOfType<IntegerAttr>(kKeyMark))
    position.key = arith::ConstantOp::create(b, e.getLoc(), b.getI64IntegerAttr(key.getInt()));
  else
    return {};
  position.microBatch = hasBatch ? scalars[batchIndex] : Value();
  position.offset = hasOffset ? scalars[offsetIndex] : Value();
  position.globalSize = getGlobalSize() ? int64_t(*getGlobalSize())
                                        : cast<RankedTensorType>(getType()).getNumElements();
  position.factorSizes = getFactorSizes().value_or(llvm::ArrayRef<int64_t>());
  position.factorStrides = getFactorStrides().value_or(llvm::ArrayRef<int64_t>());
  Value number = e.random(position, x);
  if (!number)
    return {};
  double p = getP().convertToDouble();
  Value wide = widen(e, x);
  Value scaled = narrow(e, e.mul(wide, e.constant(wide, float(1 / (1 - p)))),
                        getElementTypeOrSelf(x.getType()));
  return e.select(e.compare(Predicate::Lt, number, e.constant(number, float(p))), e.constant(x, 0),
                  scaled);
}

/// Applies a clone of the op to the cotangent. The clone draws the same random numbers, so it drops
/// the same elements.
FailureOr<llvm::SmallVector<Value>> DropoutOp::differentiate(BackwardBuilder &builder,
                                                             ValueRange cotangents) {
  llvm::SmallVector<Value> answer(getNumOperands());
  if (!cotangents[0] || !builder.needs(0))
    return answer;
  auto op = cast<DropoutOp>(builder.clone(*getOperation()));
  op.getOperandMutable().assign(cotangents[0]);
  answer[0] = op.getResult();
  return answer;
}

FailureOr<llvm::SmallVector<Value>>
DropoutOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  auto cloned = partitionByCloning(*this, builder, locals, localResults);
  ShardingAttr sharding = builder.getResultSharding(0);
  if (failed(cloned) || !sharding || sharding.isReplicated() || getOffset())
    return cloned;
  auto op = (*cloned)[0].getDefiningOp<DropoutOp>();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  SplitNumbers split = splitElementNumbers(builder, cast<RankedTensorType>(getType()), sharding);
  op.getOffsetMutable().assign(split.offset);
  op.setGlobalSize(split.globalSize);
  op.setFactorSizes(split.sizes);
  op.setFactorStrides(split.strides);
  return cloned;
}
