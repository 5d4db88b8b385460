// Implements reductions over dims.
#include "dialects/ps/Combine.h"
#include "dialects/ps/FoldSupport.h"
#include "dialects/ps/RowSupport.h"
#include <limits>

using namespace mlir;
using namespace parashard::ps;

/// Returns the dims of `type` that are not in `dims`.
static SmallVector<int64_t> getKeptDims(RankedTensorType type, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> kept;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (!llvm::is_contained(dims, d))
      kept.push_back(d);
  return kept;
}

static RankedTensorType getReducedType(RankedTensorType type, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (int64_t d : getKeptDims(type, dims))
    shape.push_back(type.getDimSize(d));
  return type.clone(shape);
}

void ReduceOp::build(OpBuilder &builder, OperationState &state, ReductionKind kind, Value operand,
                     ArrayRef<int64_t> dims) {
  build(builder, state, getReducedType(getTensorType(operand), dims), kind, operand, dims);
}

LogicalResult ReduceOp::verify() {
  RankedTensorType type = getTensorType(getOperand());
  int64_t before = -1;
  for (int64_t dim : getDims()) {
    if (dim <= before || dim >= type.getRank())
      return emitOpError() << "dims [" << getDims() << "] are not increasing dims of " << type
                           << " (reduce_c1)";
    before = dim;
  }
  if (getTensorType(getResult()) != getReducedType(type, getDims()))
    return emitOpError() << "has a result of type " << getResult().getType() << ", expected "
                         << getReducedType(type, getDims()) << " (reduce_c2)";
  return success();
}

ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors operand, result;
  for (auto [d, size] : llvm::enumerate(getTensorType(getOperand()).getShape())) {
    bool reduced = llvm::is_contained(getDims(), int64_t(d));
    unsigned factor = reduced ? rule.addReduction(size, getKind()) : rule.addFactor(size);
    operand.push_back({factor});
    if (!reduced)
      result.push_back({factor});
  }
  rule.operands = {operand};
  rule.results = {result};
  if (getKind() == ReductionKind::Sum)
    rule.linear = {{0}};
  return rule;
}

LoweringKind ReduceOp::getLoweringKind() { return LoweringKind::Row; }

OpCost ReduceOp::getCost(TypeRange operands, TypeRange results) {
  OpCost cost = elementwiseCost(operands, results);
  cost.otherFlops = cast<RankedTensorType>(operands.front()).getNumElements();
  return cost;
}

TypedAttr parashard::ps::getIdentity(ReductionKind kind, Type element) {
  if (auto type = dyn_cast<FloatType>(element)) {
    bool negative = kind == ReductionKind::Max;
    if (kind == ReductionKind::Sum)
      return FloatAttr::get(type, 0.0);
    return FloatAttr::get(type, APFloat::getInf(type.getFloatSemantics(), negative));
  }
  unsigned width = element.getIntOrFloatBitWidth();
  if (width == 1)
    return IntegerAttr::get(element, kind == ReductionKind::Min ? 1 : 0);
  APInt value = kind == ReductionKind::Sum   ? APInt::getZero(width)
                : kind == ReductionKind::Max ? APInt::getSignedMinValue(width)
                                             : APInt::getSignedMaxValue(width);
  return IntegerAttr::get(element, value);
}

static double getIdentityNumber(ReductionKind kind) {
  double infinity = std::numeric_limits<double>::infinity();
  return kind == ReductionKind::Sum ? 0 : kind == ReductionKind::Max ? -infinity : infinity;
}

/// Returns the identity of a reduction of integers. The conversion to `element` turns an infinity
/// into the extreme value of the type.
static int64_t getIntIdentity(ReductionKind kind, Type element) {
  Tensor identity(RankedTensorType::get({}, element));
  identity.set(0, getIdentityNumber(kind));
  return identity.getInt(0);
}

/// Returns the linear index of the result element into which element `i` of the operand is reduced.
static int64_t projectIndex(const Tensor &operand, const Tensor &result, ArrayRef<int64_t> kept,
                            int64_t i) {
  SmallVector<int64_t> index = operand.delinearize(i), position;
  for (int64_t d : kept)
    position.push_back(index[d]);
  return result.linearize(position);
}

FailureOr<llvm::SmallVector<Tensor>> ReduceOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                        const EvaluateContext &) {
  const Tensor &x = operands.front();
  Tensor result(getTensorType(getResult()));
  SmallVector<int64_t> kept = getKeptDims(x.getType(), getDims());
  std::vector<double> sums(result.size(), getIdentityNumber(getKind()));
  std::vector<int64_t> intSums;
  if (!x.isFloat())
    intSums.assign(result.size(), getIntIdentity(getKind(), x.getType().getElementType()));
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t index = projectIndex(x, result, kept, i);
    if (x.isFloat()) {
      sums[index] = combine(getKind(), sums[index], x.get(i));
      continue;
    }
    int64_t value = x.getInt(i);
    if (getKind() == ReductionKind::Sum)
      intSums[index] = int64_t(uint64_t(intSums[index]) + uint64_t(value));
    else
      intSums[index] = getKind() == ReductionKind::Max ? std::max(intSums[index], value)
                                                       : std::min(intSums[index], value);
  }
  for (int64_t i = 0; i < result.size(); ++i) {
    if (x.isFloat())
      result.set(i, sums[i]);
    else
      result.setInt(i, intSums[i]);
  }
  return llvm::SmallVector<Tensor>{std::move(result)};
}

/// Reduces `count` equal elements in constant time. Example: the sum over 2^40 ones is 2^40. Sums
/// of integers wrap around as in `evaluate`.
static Tensor reduceEqual(ReductionKind kind, Tensor element, int64_t count) {
  if (kind != ReductionKind::Sum)
    return element;
  if (element.isFloat())
    element.set(0, 0.0 + element.get(0) * double(count)); // -0 + 0 is 0
  else
    element.setInt(0, int64_t(uint64_t(element.getInt(0)) * uint64_t(count)));
  return element;
}

OpFoldResult ReduceOp::fold(FoldAdaptor adaptor) {
  if (getDims().empty())
    return getOperand();
  auto dense = dyn_cast_if_present<DenseElementsAttr>(adaptor.getOperand());
  if (!dense || !dense.isSplat() || dense.getNumElements() == 0)
    return foldByEvaluation(*this, adaptor.getOperands(), /*uniform=*/false);
  auto type = cast<RankedTensorType>(getType());
  int64_t count = dense.getNumElements() / type.getNumElements();
  return cast<DenseElementsAttr>(reduceEqual(getKind(), getSplatElement(dense), count).toAttr())
      .resizeSplat(type);
}

/// Emits the reduction of the last dim. The code generator transforms other reductions into this
/// form, or into sums of columns.
LogicalResult ReduceOp::emitRow(RowBuilder &row) {
  Type element = getElementTypeOrSelf(getOperand().getType());
  Value total = row.reduce(getKind(), loadWide(row, 0));
  row.storeRow(0, narrow(row.scalars(), total, element));
  return success();
}

/// Splits the cotangent of a maximum or minimum evenly among the elements that equal the extremum.
static Value shareAmongExtrema(ReduceOp op, BackwardBuilder &builder, Value spread,
                               ArrayRef<int64_t> kept) {
  auto type = getTensorType(op.getOperand());
  Value extremum = builder.make<BroadcastOp>(type, op.getResult(), kept);
  Value hits = builder.make<CompareOp>(type.clone(builder.getI1Type()), Predicate::Eq,
                                       op.getOperand(), extremum);
  Value ones = builder.make<ConvertOp>(type, hits);
  Value count = builder.make<ReduceOp>(ReductionKind::Sum, ones, op.getDims());
  Value share =
      builder.make<DivOp>(type, ones, builder.make<BroadcastOp>(type, count, kept).getResult());
  return builder.make<MulOp>(type, spread, share);
}

FailureOr<llvm::SmallVector<Value>> ReduceOp::differentiate(BackwardBuilder &builder,
                                                            ValueRange cotangents) {
  if (!cotangents[0] || !builder.needs(0))
    return llvm::SmallVector<Value>(1);
  auto type = getTensorType(getOperand());
  SmallVector<int64_t> kept = getKeptDims(type, getDims());
  Value spread = builder.make<BroadcastOp>(type, cotangents[0], kept);
  if (getKind() == ReductionKind::Sum)
    return llvm::SmallVector<Value>{spread};
  return llvm::SmallVector<Value>{shareAmongExtrema(*this, builder, spread, kept)};
}
