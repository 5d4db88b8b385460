// Implements scaled dot-product attention: verifier, sharding rule, derivative, cost and
// partitioning.
#include "dialects/ps/RandomSupport.h"
#include "dialects/ps/Refusal.h"
#include "dialects/ps/RowSupport.h"

using namespace mlir;
using namespace parashard::ps;

void AttentionOp::build(OpBuilder &builder, OperationState &state, Value query, Value key,
                        Value value, Value mask, Value padding, bool causal, double scale,
                        double dropout, bool training) {
  auto q = getTensorType(query);
  auto result = RankedTensorType::get(
      {q.getDimSize(0), q.getDimSize(1), q.getDimSize(2), getTensorType(value).getDimSize(3)},
      q.getElementType());
  auto lse = RankedTensorType::get(q.getShape().drop_back(), getComputeType(q));
  build(builder, state, result, lse, query, key, value, mask, padding, /*random_key=*/Value(),
        /*micro_batch=*/Value(), /*offset=*/Value(), causal ? builder.getUnitAttr() : UnitAttr(),
        /*window=*/IntegerAttr(), builder.getF64FloatAttr(scale), builder.getF64FloatAttr(dropout),
        builder.getBoolAttr(training), /*global_size=*/IntegerAttr(),
        /*factor_sizes=*/DenseI64ArrayAttr(),
        /*factor_strides=*/DenseI64ArrayAttr(), /*transposed=*/UnitAttr());
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

static LogicalResult expectShape(Operation *op, llvm::StringRef name, Value value,
                                 llvm::ArrayRef<int64_t> expected, llvm::StringRef label) {
  if (getTensorType(value).getShape() == expected)
    return success();
  return op->emitOpError(name) << " has type " << value.getType() << ", expected shape ["
                               << expected << "] (" << label << ")";
}

/// Verifies the shape and the element type of the mask (attention_c3). `full` is [B, H, T, S].
static LogicalResult verifyMask(Operation *op, Value mask, llvm::ArrayRef<int64_t> full) {
  RankedTensorType type = getTensorType(mask);
  bool fits = type.getRank() == 4 && type.getDimSize(3) == full[3];
  for (int dim = 0; fits && dim < 3; ++dim)
    fits = type.getDimSize(dim) == full[dim] || type.getDimSize(dim) == 1;
  if (!fits)
    return op->emitOpError("mask has type ")
           << type << ", expected shape [" << full
           << "], where dims before the last may be 1 (attention_c3)";
  if (!type.getElementType().isInteger(1) && !isa<FloatType>(type.getElementType()))
    return op->emitOpError("mask has element type ")
           << type.getElementType() << ", expected i1 or a float (attention_c3)";
  return success();
}

LogicalResult AttentionOp::verify() {
  for (Value value : {getQuery(), getKey(), getValue()})
    if (getTensorType(value).getRank() != 4)
      return emitOpError("takes tensors of 4 dims, got ") << value.getType() << " (attention_c1)";
  auto q = getTensorType(getQuery()).getShape(), k = getTensorType(getKey()).getShape(),
       v = getTensorType(getValue()).getShape();
  if (k[0] != q[0] || k[3] != q[3])
    return emitOpError("key has type ") << getKey().getType() << ", query " << getQuery().getType()
                                        << ": batch and feature sizes must agree (attention_c1)";
  if (v.drop_back() != k.drop_back())
    return emitOpError("value has type ")
           << getValue().getType() << ", key " << getKey().getType()
           << ": batch, head and sequence sizes must agree (attention_c1)";
  if (k[1] == 0 || q[1] % k[1] != 0)
    return emitOpError("query has ") << q[1] << " heads, not a multiple of the " << k[1]
                                     << " heads of the key (attention_c2)";
  llvm::SmallVector<int64_t> result{q[0], q[1], q[2], v[3]};
  if (getTransposed())
    std::swap(result[1], result[2]);
  if (failed(expectShape(*this, "result", getResult(), result, "attention_c1")) ||
      failed(expectShape(*this, "lse", getLse(), q.drop_back(), "attention_c1")))
    return failure();
  if (getMask() && failed(verifyMask(*this, getMask(), {q[0], q[1], q[2], k[2]})))
    return failure();
  return getPadding() ? expectShape(*this, "padding", getPadding(), {q[0], k[2]}, "attention_c3")
                      : success();
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

namespace {
/// The factors of attention: batch, group, heads per group, query and key positions, features.
struct AttentionFactors {
  unsigned batch, group, rest, query, key, feature, valueFeature;
  bool splitHeads; ///< whether a group has more than one query head

  /// `positional`: whether the keys that a query sees depend on the query's position.
  AttentionFactors(ShardingRule &rule, RankedTensorType q, RankedTensorType k, RankedTensorType v,
                   bool positional) {
    batch = rule.addFactor(q.getDimSize(0));
    group = rule.addFactor(k.getDimSize(1));
    rest = rule.addFactor(q.getDimSize(1) / k.getDimSize(1));
    query = positional ? rule.addWhole(q.getDimSize(2),
                                       "a causal mask depends on the positions of all queries")
                       : rule.addFactor(q.getDimSize(2));
    key = rule.addWhole(k.getDimSize(2), "attention normalizes over all keys");
    feature = rule.addWhole(q.getDimSize(3), "attention scores sum over the features of a head");
    valueFeature = v.getDimSize(3) == q.getDimSize(3)
                       ? feature
                       : rule.addWhole(v.getDimSize(3), "attention needs whole heads");
    splitHeads = q.getDimSize(1) != k.getDimSize(1);
  }

  DimFactors heads() const { return splitHeads ? DimFactors{group, rest} : DimFactors{group}; }
  TensorFactors ofQuery(unsigned last) const { return {{batch}, heads(), {query}, {last}}; }
  TensorFactors ofKey(unsigned last) const { return {{batch}, {group}, {key}, {last}}; }
  TensorFactors ofLse() const { return {{batch}, heads(), {query}}; }
  TensorFactors ofPadding() const { return {{batch}, {key}}; }
  /// Returns the factors of a mask. A dim of size 1 has no factor.
  TensorFactors ofMask(RankedTensorType type) const {
    return {type.getDimSize(0) == 1 ? DimFactors{} : DimFactors{batch},
            type.getDimSize(1) == 1 ? DimFactors{} : heads(),
            type.getDimSize(2) == 1 ? DimFactors{} : DimFactors{query},
            {key}};
  }
};
} // namespace

/// Adds the factors of the optional operands, in operand order.
template <typename Op>
static void addOptionalOperands(Op op, const AttentionFactors &f, ShardingRule &rule) {
  if (op.getMask())
    rule.operands.push_back(f.ofMask(getTensorType(op.getMask())));
  if (op.getPadding())
    rule.operands.push_back(f.ofPadding());
  rule.operands.resize(op->getNumOperands()); // key, micro-batch and offset have no dims
}

/// Swaps the dims of heads and positions if `transposed`.
static TensorFactors order(TensorFactors factors, bool transposed) {
  if (transposed)
    std::swap(factors[1], factors[2]);
  return factors;
}

ShardingRule AttentionOp::getShardingRule() {
  ShardingRule rule;
  AttentionFactors f(rule, getTensorType(getQuery()), getTensorType(getKey()),
                     getTensorType(getValue()), getCausal() || getWindow());
  rule.operands = {f.ofQuery(f.feature), f.ofKey(f.feature), f.ofKey(f.valueFeature)};
  addOptionalOperands(*this, f, rule);
  rule.results = {order(f.ofQuery(f.valueFeature), getTransposed()), f.ofLse()};
  rule.linear = {{2}};
  return rule;
}

ShardingRule AttentionGradOp::getShardingRule() {
  ShardingRule rule;
  AttentionFactors f(rule, getTensorType(getQuery()), getTensorType(getKey()),
                     getTensorType(getValue()), getCausal() || getWindow());
  rule.operands = {f.ofQuery(f.valueFeature), f.ofQuery(f.feature),      f.ofKey(f.feature),
                   f.ofKey(f.valueFeature),   f.ofQuery(f.valueFeature), f.ofLse()};
  addOptionalOperands(*this, f, rule);
  for (const TensorFactors &factors :
       {f.ofQuery(f.feature), f.ofKey(f.feature), f.ofKey(f.valueFeature)})
    rule.results.push_back(order(factors, getTransposed()));
  return rule;
}

/// If the op is sharded and dropout is active, sets `offset`, `global_size` and the factors, which
/// locate the local probabilities in the global tensor [B, H, T, S].
template <typename Op>
static void assignRandomNumbers(Op op, PartitionBuilder &builder, RankedTensorType queryType,
                                int64_t keys, ShardingAttr query) {
  if (!op.getTraining() || op.getDropout().isZero() || !query || query.isReplicated() ||
      op.getOffset())
    return;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  auto shape = llvm::to_vector(queryType.getShape());
  shape.back() = keys;
  auto global = RankedTensorType::get(shape, queryType.getElementType());
  SplitNumbers split =
      splitElementNumbers(builder, global, query); // features and keys are not sharded
  op.getOffsetMutable().assign(split.offset);
  op.setGlobalSize(split.globalSize);
  op.setFactorSizes(split.sizes);
  op.setFactorStrides(split.strides);
}

FailureOr<llvm::SmallVector<Value>>
AttentionOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  auto cloned = partitionByCloning(*this, builder, locals, localResults);
  if (succeeded(cloned))
    assignRandomNumbers((*cloned)[0].getDefiningOp<AttentionOp>(), builder,
                        getTensorType(getQuery()), getTensorType(getKey()).getDimSize(2),
                        builder.getOperandSharding(0));
  return cloned;
}

/// Returns the axes that shard the query sequence, or the query heads that share one key head. The
/// cotangents of keys and values are partial sums over these axes.
static llvm::SmallVector<StringAttr> getSummedAxes(ShardingAttr query, int64_t groups) {
  llvm::SmallVector<StringAttr> axes;
  if (!query)
    return axes;
  int64_t before = 1;
  for (FactorAttr factor : query.getDims()[1].getFactors()) {
    if (before >= groups)
      axes.append(factor.getAxes().begin(), factor.getAxes().end());
    before *= std::max<int64_t>(factor.getSize(), 1);
  }
  for (FactorAttr factor : query.getDims()[2].getFactors())
    axes.append(factor.getAxes().begin(), factor.getAxes().end());
  return axes;
}

/// Fills the padding of heads and queries with zeros, so that padding adds nothing to the
/// cotangents of keys and values.
static void zeroPaddedQueries(AttentionGradOp op, PartitionBuilder &builder,
                              llvm::SmallVectorImpl<Value> &locals) {
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    bool hasHeads = operand == op.getCotangent() || operand == op.getQuery() ||
                    operand == op.getResult() || operand == op.getLse() || operand == op.getMask();
    if (!type || !hasHeads || !isa<FloatType>(type.getElementType()))
      continue;
    for (unsigned dim : {1u, 2u})
      locals[i] = builder.selectPadding(locals[i], type, builder.getOperandSharding(i), dim, 0.0);
  }
}

FailureOr<llvm::SmallVector<Value>>
AttentionGradOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  int64_t groups = getTensorType(getKey()).getDimSize(1),
          heads = getTensorType(getQuery()).getDimSize(1);
  auto axes = getSummedAxes(builder.getOperandSharding(1), heads == groups ? heads + 1 : groups);
  llvm::SmallVector<Value> masked(locals);
  if (!axes.empty())
    zeroPaddedQueries(*this, builder, masked);
  auto cloned = partitionByCloning(*this, builder, masked, localResults);
  if (failed(cloned))
    return failure();
  assignRandomNumbers((*cloned)[0].getDefiningOp<AttentionGradOp>(), builder,
                      getTensorType(getQuery()), getTensorType(getKey()).getDimSize(2),
                      builder.getOperandSharding(1));
  if (!axes.empty())
    for (unsigned i : {1u, 2u})
      (*cloned)[i] = builder.allReduce((*cloned)[i], ReductionKind::Sum, axes);
  return cloned;
}

//===----------------------------------------------------------------------===//
// Derivative, cost, lowering
//===----------------------------------------------------------------------===//

LoweringKind AttentionOp::getLoweringKind() { return LoweringKind::Library; }
LoweringKind AttentionGradOp::getLoweringKind() { return LoweringKind::Library; }

/// Returns true for tensors with heads (queries, keys, values, results and cotangents), and for
/// masks of floats. Attention reads all of these through strides.
static bool hasHeads(Value operand) {
  auto type = dyn_cast<RankedTensorType>(operand.getType());
  return type && type.getRank() == 4 && isa<FloatType>(type.getElementType());
}
bool AttentionOp::readsStrides(unsigned operand) { return hasHeads(getOperand(operand)); }
bool AttentionGradOp::readsStrides(unsigned operand) { return hasHeads(getOperand(operand)); }

/// Returns the cost of `contractions` matmuls with the sizes T, S and D per head. A causal mask
/// halves the flops.
static OpCost attentionCost(TypeRange operands, TypeRange results, Type query, Type key,
                            int64_t contractions, bool causal, FlopKind kind) {
  auto q = cast<RankedTensorType>(query), k = cast<RankedTensorType>(key);
  OpCost cost = elementwiseCost(operands, results);
  int64_t scores = q.getDimSize(0) * q.getDimSize(1) * q.getDimSize(2) * k.getDimSize(2);
  cost.contractionFlops = 2 * contractions * scores * q.getDimSize(3) / (causal ? 2 : 1);
  cost.flopKind = kind;
  cost.otherFlops = 5 * scores / (causal ? 2 : 1);
  return cost;
}

OpCost AttentionOp::getCost(TypeRange operands, TypeRange results) {
  return attentionCost(operands, results, operands[0], operands[1], 2, getCausal(),
                       FlopKind::Attention);
}
OpCost AttentionGradOp::getCost(TypeRange operands, TypeRange results) {
  return attentionCost(operands, results, operands[1], operands[2], 5, getCausal(),
                       FlopKind::AttentionGrad);
}

/// Returns true for a float mask too, so that training a mask gives an error instead of a missing
/// gradient.
bool AttentionOp::isDifferentiable(unsigned operand) {
  return isa<FloatType>(getElementTypeOrSelf(getOperand(operand).getType()));
}

FailureOr<llvm::SmallVector<Value>> AttentionOp::differentiate(BackwardBuilder &builder,
                                                               ValueRange cotangents) {
  if (cotangents[1])
    return refuse(*this) << "the loss uses the log-sum-exp of '" << getOperationName()
                         << "', which has no derivative; use only the attention output in the loss",
           failure();
  llvm::SmallVector<Value> answer(getNumOperands());
  if (!cotangents[0])
    return answer;
  for (unsigned i = 3; i < getNumOperands(); ++i)
    if (builder.needs(i))
      return refuse(*this)
                 << "'" << getOperationName()
                 << "' does not support a gradient with respect to its mask; add the mask to the "
                    "scores outside the op",
             failure();
  auto grad = builder.make<AttentionGradOp>(
      getQuery().getType(), getKey().getType(), getValue().getType(), cotangents[0], getQuery(),
      getKey(), getValue(), getResult(), getLse(), getMask(), getPadding(), getRandomKey(),
      getMicroBatch(), getOffset(), getCausalAttr(), getWindowAttr(), getScaleAttr(),
      getDropoutAttr(), getTrainingAttr(), getGlobalSizeAttr(), getFactorSizesAttr(),
      getFactorStridesAttr(), /*transposed=*/UnitAttr());
  if (Attribute key = (*this)->getAttr(kKeyMark))
    grad->setAttr(kKeyMark, key);
  for (unsigned i = 0; i < 3; ++i)
    if (builder.needs(i))
      answer[i] = grad->getResult(i);
  return answer;
}

//===----------------------------------------------------------------------===//
// Library call
//===----------------------------------------------------------------------===//

/// Adds a [B, H, T, D] operand or result (with `transposed`, [B, T, H, D]): its address, and its
/// strides of batch, head and row.
static LogicalResult addHeads(CallBuilder &call, StringRef field, Value value,
                              bool transposed = false) {
  std::optional<SmallVector<int64_t>> strides = call.getStrides(value);
  if (!strides || (*strides)[3] != 1)
    return emitError(value.getLoc())
           << "attention's " << field << " is not dense along its last dim; run ps-fuse first";
  call.addBuffer(field, value);
  unsigned head = transposed ? 2 : 1, row = transposed ? 1 : 2;
  call.add((field + "_strides").str(),
           llvm::json::Array{(*strides)[0], (*strides)[head], (*strides)[row]});
  return success();
}

template <typename Op> static void addDropout(CallBuilder &call, Op op) {
  bool drops = op.getTraining() && !op.getDropout().isZero();
  call.add("dropout", drops ? op.getDropout().convertToDouble() : 0.0);
  call.add("key", drops && op.getRandomKey() ? call.getKeyNumber(op.getRandomKey()) : -1);
  if (!drops)
    return;
  ArrayRef<int64_t> q = getTensorType(op.getQuery()).getShape();
  int64_t keys = getTensorType(op.getKey()).getDimSize(2);
  if (op.getOffset())
    call.addBuffer("offset", op.getOffset());
  call.add("factor_sizes", llvm::json::Array(op.getFactorSizes().value_or(ArrayRef<int64_t>())));
  call.add("factor_strides",
           llvm::json::Array(op.getFactorStrides().value_or(ArrayRef<int64_t>())));
  call.add("global_size", op.getGlobalSize().value_or(q[0] * q[1] * q[2] * keys));
}

/// Adds the address, the type and the strides of a mask. A dim of size 1 is broadcast, so its
/// stride is 0.
static LogicalResult addMask(CallBuilder &call, Operation *op, Value mask) {
  std::optional<SmallVector<int64_t>> strides = call.getStrides(mask);
  if (!strides)
    return op->emitOpError("has a mask that is not a strided view; run ps-fuse first");
  call.addBuffer("mask", mask);
  call.addType("mask_dtype", getElementTypeOrSelf(mask.getType()));
  for (auto [size, stride] : llvm::zip_equal(getTensorType(mask).getShape(), *strides))
    if (size == 1)
      stride = 0;
  call.add("mask_strides", llvm::json::Array(*strides));
  return success();
}

/// Adds the fields that attention and its gradient share.
template <typename Op> static LogicalResult addAttention(CallBuilder &call, Op op) {
  ArrayRef<int64_t> q = getTensorType(op.getQuery()).getShape();
  ArrayRef<int64_t> k = getTensorType(op.getKey()).getShape();
  call.addType("dtype", getElementTypeOrSelf(op.getQuery().getType()));
  call.add("sizes", llvm::json::Array{q[0], q[1], k[1], q[2], k[2], q[3]});
  std::pair<StringRef, Value> heads[] = {
      {"q", op.getQuery()}, {"k", op.getKey()}, {"v", op.getValue()}};
  for (auto [field, value] : heads)
    if (failed(addHeads(call, field, value)))
      return failure();
  bool isForward = std::is_same_v<Op, AttentionOp>; // the gradient reads the result
  if (failed(addHeads(call, "out", op.getResult(), isForward && op.getTransposed())))
    return failure();
  call.addBuffer("lse", op.getLse());
  call.add("causal", op.getCausal());
  call.add("window", op.getWindow().value_or(0));
  call.add("scale", op.getScale().convertToDouble());
  addDropout(call, op);
  if (op.getMask() && failed(addMask(call, op, op.getMask())))
    return failure();
  if (op.getPadding())
    call.addBuffer("padding", op.getPadding());
  return success();
}

LogicalResult AttentionOp::emitCall(CallBuilder &call) { return addAttention(call, *this); }

LogicalResult AttentionGradOp::emitCall(CallBuilder &call) {
  if (failed(addAttention(call, *this)))
    return failure();
  std::pair<StringRef, Value> cotangents[] = {
      {"dq", getQueryCotangent()}, {"dk", getKeyCotangent()}, {"dv", getValueCotangent()}};
  for (auto [field, value] : cotangents)
    if (failed(addHeads(call, field, value, getTransposed())))
      return failure();
  return addHeads(call, "dout", getCotangent());
}
