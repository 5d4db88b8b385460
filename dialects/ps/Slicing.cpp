// Implements slice, pad and concat.
#include "dialects/ps/FoldSupport.h"
#include "shared/Counts.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace parashard::ps;

static void copyElement(Tensor &to, int64_t i, const Tensor &from, int64_t j) {
  if (to.isFloat())
    to.set(i, from.get(j));
  else
    to.setInt(i, from.getInt(j));
}

/// Returns the factors (size / unit) x unit of a dim that is sliced or concatenated at multiples of
/// `unit`. The major factor must not be sharded. `minor` is the index of the minor factor in the
/// rule. Example: size 1152 and unit 384 give 3 x 384.
static DimFactors addBorderFactors(ShardingRule &rule, int64_t size, unsigned minor, int64_t unit,
                                   StringRef reason) {
  if (size == unit)
    return {minor};
  return {rule.addWhole(size / unit, reason), minor};
}

//===----------------------------------------------------------------------===//
// slice
//===----------------------------------------------------------------------===//

void SliceOp::build(OpBuilder &builder, OperationState &state, Value operand, int64_t dim,
                    int64_t start, int64_t limit) {
  RankedTensorType type = getTensorType(operand);
  SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape());
  SmallVector<int64_t> strides(type.getRank(), 1), shape(type.getShape());
  starts[dim] = start;
  limits[dim] = limit;
  shape[dim] = limit - start;
  build(builder, state, type.clone(shape), operand, starts, limits, strides);
}

LogicalResult SliceOp::verify() {
  RankedTensorType type = getTensorType(getOperand());
  size_t rank = type.getRank();
  if (getStarts().size() != rank || getLimits().size() != rank || getStrides().size() != rank)
    return emitOpError() << "needs one start, limit and stride for each of "
                         << describeCount(rank, "dim") << " (slice_c1)";
  SmallVector<int64_t> shape;
  for (auto [d, size] : llvm::enumerate(type.getShape())) {
    int64_t start = getStarts()[d], limit = getLimits()[d], stride = getStrides()[d];
    if (start < 0 || start > limit || limit > size || stride < 1)
      return emitOpError() << "slices [" << start << ", " << limit << ") with stride " << stride
                           << " from dim " << d << " of size " << size
                           << "; expected 0 <= start <= limit <= size and stride >= 1 (slice_c1)";
    shape.push_back(llvm::divideCeil(limit - start, stride));
  }
  if (type.clone(shape) != getType())
    return emitOpError() << "has a result of type " << getType() << ", expected "
                         << type.clone(shape) << " (slice_c2)";
  return success();
}

/// Returns one factor for each dim that is not sliced. For a sliced dim, only the minor factor
/// gcd(start, limit, size) may be sharded. Example: for the slice [384, 768) of a dim of 1152
/// elements, the dim has the factors 3 x 384, and only the factor 384 may be sharded.
ShardingRule SliceOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors operand, result;
  for (auto [d, size] : llvm::enumerate(getTensorType(getOperand()).getShape())) {
    int64_t start = getStarts()[d], limit = getLimits()[d];
    int64_t unit = std::gcd(std::gcd(start, limit), size);
    StringRef reason = "slice takes part of the dim";
    if (getStrides()[d] != 1 || (unit == 1 && limit - start != size)) {
      operand.push_back({rule.addWhole(size, reason)});
      result.push_back({rule.addWhole(getTensorType(getResult()).getDimSize(d), reason)});
      continue;
    }
    if (limit - start == size)
      unit = size;
    unsigned minor = rule.addFactor(unit);
    operand.push_back(addBorderFactors(rule, size, minor, unit, reason));
    result.push_back(addBorderFactors(rule, limit - start, minor, unit, reason));
  }
  rule.operands = {operand};
  rule.results = {result};
  rule.linear = {{0}};
  return rule;
}

LoweringKind SliceOp::getLoweringKind() { return LoweringKind::Movement; }

FailureOr<llvm::SmallVector<Tensor>> SliceOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                       const EvaluateContext &) {
  Tensor result(getTensorType(getResult()));
  for (int64_t i = 0; i < result.size(); ++i) {
    SmallVector<int64_t> index = result.delinearize(i);
    for (auto [d, position] : llvm::enumerate(index))
      position = getStarts()[d] + position * getStrides()[d];
    copyElement(result, i, operands[0], operands[0].linearize(index));
  }
  return llvm::SmallVector<Tensor>{std::move(result)};
}

FailureOr<llvm::SmallVector<Value>> SliceOp::differentiate(BackwardBuilder &builder,
                                                           ValueRange cotangents) {
  RankedTensorType type = getTensorType(getOperand());
  SmallVector<int64_t> high;
  for (auto [d, size] : llvm::enumerate(type.getShape())) {
    int64_t n = getTensorType(getResult()).getDimSize(d);
    int64_t end = n ? getStarts()[d] + (n - 1) * getStrides()[d] + 1 : getStarts()[d];
    high.push_back(size - end);
  }
  return llvm::SmallVector<Value>{
      builder.make<PadOp>(type, cotangents[0], getStarts(), high, getStrides())};
}

/// Slices the local tensor. If the minor factor of a dim is sharded, start, limit and size shrink
/// in the same proportion.
FailureOr<llvm::SmallVector<Value>> SliceOp::partition(PartitionBuilder &builder, ValueRange locals,
                                                       TypeRange localResults) {
  RankedTensorType global = getTensorType(getOperand()), local = getTensorType(locals[0]);
  auto result = cast<RankedTensorType>(localResults[0]);
  SmallVector<int64_t> starts(getStarts()), limits(getLimits());
  for (int64_t d = 0; d < global.getRank(); ++d) {
    if (local.getDimSize(d) == global.getDimSize(d))
      continue;
    // Each rank holds `localUnit` of the `unit` elements of the minor factor.
    int64_t resultSize = getTensorType(getResult()).getDimSize(d);
    int64_t unit = std::gcd(std::gcd(starts[d], limits[d]), global.getDimSize(d));
    if (resultSize == global.getDimSize(d))
      unit = resultSize;
    int64_t localUnit = local.getDimSize(d) / (global.getDimSize(d) / unit);
    starts[d] = starts[d] / unit * localUnit;
    limits[d] = limits[d] / unit * localUnit;
  }
  return llvm::SmallVector<Value>{
      builder.make<SliceOp>(result, locals[0], starts, limits, getStrides())};
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  return foldMovement(*this, adaptor.getOperands().take_front(1));
}

namespace {
/// Merges slice(slice(x)) into one slice.
struct MergeSlices : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<SliceOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "operand is not a slice");
    SmallVector<int64_t> starts, limits, strides;
    for (size_t d = 0; d < op.getStarts().size(); ++d) {
      int64_t stride = inner.getStrides()[d], start = inner.getStarts()[d];
      starts.push_back(start + op.getStarts()[d] * stride);
      limits.push_back(
          std::min(start + (op.getLimits()[d] - 1) * stride + 1, inner.getLimits()[d]));
      strides.push_back(op.getStrides()[d] * stride);
      if (op.getLimits()[d] == op.getStarts()[d])
        return rewriter.notifyMatchFailure(op, "slice is empty");
    }
    rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), inner.getOperand(), starts, limits,
                                         strides);
    return success();
  }
};
} // namespace

void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MergeSlices>(context);
}

//===----------------------------------------------------------------------===//
// pad
//===----------------------------------------------------------------------===//

static int64_t getPaddedSize(int64_t size, int64_t low, int64_t high, int64_t stride) {
  return low + (size > 0 ? (size - 1) * stride + 1 : 0) + high;
}

LogicalResult PadOp::verify() {
  RankedTensorType type = getTensorType(getOperand());
  size_t rank = type.getRank();
  if (getLow().size() != rank || getHigh().size() != rank || getStrides().size() != rank)
    return emitOpError() << "needs one low, high and stride for each of "
                         << describeCount(rank, "dim") << " (pad_c1)";
  SmallVector<int64_t> shape;
  for (auto [d, size] : llvm::enumerate(type.getShape())) {
    if (getLow()[d] < 0 || getHigh()[d] < 0 || getStrides()[d] < 1)
      return emitOpError() << "pads dim " << d << " by " << getLow()[d] << " and " << getHigh()[d]
                           << " with stride " << getStrides()[d]
                           << "; expected low, high >= 0 and stride >= 1 (pad_c1)";
    shape.push_back(getPaddedSize(size, getLow()[d], getHigh()[d], getStrides()[d]));
  }
  if (type.clone(shape) != getType())
    return emitOpError() << "has a result of type " << getType() << ", expected "
                         << type.clone(shape) << " (pad_c2)";
  return success();
}

ShardingRule PadOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors operand, result;
  for (auto [d, size] : llvm::enumerate(getTensorType(getOperand()).getShape())) {
    int64_t padded = getTensorType(getResult()).getDimSize(d);
    int64_t unit = std::gcd(std::gcd(getLow()[d], size), padded);
    StringRef reason = "pad extends the dim";
    if (getStrides()[d] != 1 || (unit == 1 && padded != size)) {
      operand.push_back({rule.addWhole(size, reason)});
      result.push_back({rule.addWhole(padded, reason)});
      continue;
    }
    if (padded == size)
      unit = size;
    unsigned minor = rule.addFactor(unit);
    operand.push_back(addBorderFactors(rule, size, minor, unit, reason));
    result.push_back(addBorderFactors(rule, padded, minor, unit, reason));
  }
  rule.operands = {operand};
  rule.results = {result};
  rule.linear = {{0}};
  return rule;
}

LoweringKind PadOp::getLoweringKind() { return LoweringKind::Movement; }

FailureOr<llvm::SmallVector<Tensor>> PadOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                     const EvaluateContext &) {
  Tensor result(getTensorType(getResult()));
  for (int64_t i = 0; i < operands[0].size(); ++i) {
    SmallVector<int64_t> index = operands[0].delinearize(i);
    for (auto [d, position] : llvm::enumerate(index))
      position = getLow()[d] + position * getStrides()[d];
    copyElement(result, result.linearize(index), operands[0], i);
  }
  return llvm::SmallVector<Tensor>{std::move(result)};
}

FailureOr<llvm::SmallVector<Value>> PadOp::differentiate(BackwardBuilder &builder,
                                                         ValueRange cotangents) {
  RankedTensorType type = getTensorType(getOperand());
  SmallVector<int64_t> limits;
  for (auto [d, size] : llvm::enumerate(type.getShape()))
    limits.push_back(size ? getLow()[d] + (size - 1) * getStrides()[d] + 1 : getLow()[d]);
  return llvm::SmallVector<Value>{
      builder.make<SliceOp>(type, cotangents[0], getLow(), limits, getStrides())};
}

FailureOr<llvm::SmallVector<Value>> PadOp::partition(PartitionBuilder &builder, ValueRange locals,
                                                     TypeRange localResults) {
  RankedTensorType global = getTensorType(getOperand()), local = getTensorType(locals[0]);
  SmallVector<int64_t> low(getLow()), high(getHigh());
  for (int64_t d = 0; d < global.getRank(); ++d) {
    int64_t padded = getTensorType(getResult()).getDimSize(d);
    if (local.getDimSize(d) == global.getDimSize(d) || padded == global.getDimSize(d))
      continue;
    int64_t unit = std::gcd(std::gcd(low[d], global.getDimSize(d)), padded);
    int64_t localUnit = local.getDimSize(d) / (global.getDimSize(d) / unit);
    low[d] = low[d] / unit * localUnit;
    high[d] = high[d] / unit * localUnit;
  }
  return llvm::SmallVector<Value>{
      builder.make<PadOp>(localResults[0], locals[0], low, high, getStrides())};
}

//===----------------------------------------------------------------------===//
// concat
//===----------------------------------------------------------------------===//

LogicalResult ConcatOp::verify() {
  RankedTensorType result = getTensorType(getResult());
  int64_t sum = 0;
  if (getDim() >= uint64_t(result.getRank()))
    return emitOpError() << "dim " << getDim() << " is out of range for " << result
                         << " (concat_c1)";
  for (Value operand : getOperands()) {
    RankedTensorType type = getTensorType(operand);
    SmallVector<int64_t> shape(result.getShape());
    if (type.getRank() == result.getRank())
      shape[getDim()] = type.getDimSize(getDim());
    if (type != result.clone(shape))
      return emitOpError() << "cannot concatenate " << type << " into " << result << " along dim "
                           << getDim() << " (concat_c1)";
    sum += type.getDimSize(getDim());
  }
  if (sum != result.getDimSize(getDim()))
    return emitOpError() << "sizes of the operands along dim " << getDim() << " add up to " << sum
                         << ", but the result is " << result << " (concat_c1)";
  return success();
}

/// Returns the greatest common divisor of the operand sizes along the concatenated dim.
static int64_t getConcatUnit(ConcatOp op) {
  int64_t unit = 0;
  for (Value operand : op.getOperands())
    unit = std::gcd(unit, getTensorType(operand).getDimSize(op.getDim()));
  return unit;
}

ShardingRule ConcatOp::getShardingRule() {
  RankedTensorType type = getTensorType(getResult());
  int64_t unit = getConcatUnit(*this);
  StringRef reason = "concat joins parts of the dim";
  ShardingRule rule;
  TensorFactors shared;
  for (auto [d, size] : llvm::enumerate(type.getShape()))
    shared.push_back({d == getDim() && unit <= 1 ? rule.addWhole(size, reason)
                                                 : rule.addFactor(d == getDim() ? unit : size)});
  unsigned minor = shared[getDim()].front();
  auto withDim = [&](int64_t size) {
    TensorFactors tensor = shared;
    if (unit > 1)
      tensor[getDim()] = addBorderFactors(rule, size, minor, unit, reason);
    else if (size != type.getDimSize(getDim()))
      tensor[getDim()] = {rule.addWhole(size, reason)};
    return tensor;
  };
  SmallVector<unsigned, 2> all;
  for (auto [i, operand] : llvm::enumerate(getOperands())) {
    rule.operands.push_back(withDim(getTensorType(operand).getDimSize(getDim())));
    all.push_back(i);
  }
  rule.results = {withDim(type.getDimSize(getDim()))};
  rule.linear = {all};
  return rule;
}

LoweringKind ConcatOp::getLoweringKind() { return LoweringKind::Movement; }

FailureOr<llvm::SmallVector<Tensor>> ConcatOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                        const EvaluateContext &) {
  Tensor result(getTensorType(getResult()));
  int64_t offset = 0;
  for (const Tensor &operand : operands) {
    for (int64_t i = 0; i < operand.size(); ++i) {
      SmallVector<int64_t> index = operand.delinearize(i);
      index[getDim()] += offset;
      copyElement(result, result.linearize(index), operand, i);
    }
    offset += operand.getShape()[getDim()];
  }
  return llvm::SmallVector<Tensor>{std::move(result)};
}

FailureOr<llvm::SmallVector<Value>> ConcatOp::differentiate(BackwardBuilder &builder,
                                                            ValueRange cotangents) {
  llvm::SmallVector<Value> answer;
  int64_t offset = 0;
  for (auto [i, operand] : llvm::enumerate(getOperands())) {
    int64_t size = getTensorType(operand).getDimSize(getDim());
    answer.push_back(builder.needs(i) ? builder.make<SliceOp>(cotangents[0], int64_t(getDim()),
                                                              offset, offset + size)
                                      : Value());
    offset += size;
  }
  return answer;
}

FailureOr<llvm::SmallVector<Value>> ConcatOp::partition(PartitionBuilder &builder,
                                                        ValueRange locals, TypeRange localResults) {
  return llvm::SmallVector<Value>{
      builder.make<ConcatOp>(localResults[0], locals, int64_t(getDim()))};
}

OpFoldResult ConcatOp::fold(FoldAdaptor adaptor) {
  if (getOperands().size() == 1)
    return getOperands().front();
  return foldMovement(*this, adaptor.getOperands());
}
