// Implements the analysis of sums over samples, with the sharding rules of the ops.
#include "BatchSums.h"
#include "dialects/ps/Ps.h"
#include "parashard/Training.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::training;
using namespace parashard::ps;

BatchSums::BatchSums(Block &block) {
  auto function = cast<func::FuncOp>(block.getParentOp());
  for (BlockArgument argument : block.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    auto mark = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kBatchDimMark);
    int64_t dim = mark ? mark.getInt() : 0;
    if (type && dim >= 0 && dim < type.getRank())
      states[argument] = {State::Kind::Rows, {unsigned(dim), 1}, type.getDimSize(dim)};
  }
  for (Operation &op : block.without_terminator())
    visit(&op);
}

int64_t BatchSums::getSamples(Value value) const {
  State state = get(value);
  return state.kind == State::Kind::Sum && state.samples > 1 ? state.samples : 0;
}

int64_t BatchSums::getBatchDim(Value value) const {
  State state = get(value);
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  if (state.kind == State::Kind::None)
    return kNoBatch;
  if (state.kind == State::Kind::Rows)
    return state.position.outer == 1 ? state.position.index : kWholeBatch;
  if (state.samples > 1 || shape.empty())
    return kWholeBatch;
  auto *unitDim = llvm::find(shape, 1);
  return unitDim == shape.end() ? 0 : unitDim - shape.begin();
}

bool BatchSums::isOtherThanSum(Value value) const {
  State state = get(value);
  return state.kind != State::Kind::None && state.kind != State::Kind::Sum && state.samples > 1;
}

void BatchSums::setResults(Operation *op, State state) {
  for (Value result : op->getResults())
    states[result] = state;
}

/// Returns true for additive ops: op(x + y) equals op(x) + op(y).
static bool isAdditive(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getKind() == ReductionKind::Sum;
  return isa<AddOp, SubOp, NegOp, ConvertOp, ReshapeOp, TransposeOp>(op);
}

void BatchSums::visit(Operation *op) {
  std::optional<State::Kind> kind;
  int64_t samples = 0;
  bool everyOperand = true;
  for (Value operand : op->getOperands()) {
    State state = get(operand);
    if (state.kind == State::Kind::None) {
      everyOperand = false;
      continue;
    }
    // If the operands have different kinds or batch sizes, the result has kind Other.
    bool agrees = !kind || (*kind == state.kind && samples == state.samples);
    kind = agrees ? state.kind : State::Kind::Other;
    samples = state.samples;
  }
  if (!kind)
    return;
  if (*kind == State::Kind::Rows && isa<ShardingOpInterface>(op))
    return visitRows(op, samples);
  bool isSum = *kind == State::Kind::Sum && everyOperand && isAdditive(op);
  setResults(op, {isSum ? State::Kind::Sum : State::Kind::Other, {}, samples});
}

/// Converts a position in a tensor's dims to a position in the rule's factors. Returns nullopt if
/// the samples span several factors, or if the tensor has no elements. Example: dims [2 * B, H]
/// have the factors 2, B and H. The position of the B samples is {0, 2} in the dims (dim 0, `outer`
/// 2) and {1, 1} in the factors (factor 1, `outer` 1).
std::optional<BatchSums::Position> BatchSums::findFactor(const ShardingRule &rule,
                                                         const TensorFactors &dims,
                                                         Position position, int64_t samples) {
  int64_t before = 1;
  for (unsigned factor : dims[position.index]) {
    int64_t size = rule.factors[factor].size;
    if (size == 0 || position.outer == 0)
      break;
    if (position.outer % before == 0 && size % (position.outer / before * samples) == 0)
      return Position{factor, position.outer / before};
    before *= size;
  }
  return std::nullopt;
}

/// Converts a position in the factors to a position in a tensor's dims. Returns nullopt if the
/// tensor does not have the factor.
std::optional<BatchSums::Position>
BatchSums::findDim(const ShardingRule &rule, const TensorFactors &dims, Position position) {
  for (auto [dim, factors] : llvm::enumerate(dims)) {
    int64_t before = 1;
    for (unsigned factor : factors) {
      if (factor == position.index)
        return Position{unsigned(dim), before * position.outer};
      before *= rule.factors[factor].size;
    }
  }
  return std::nullopt;
}

bool BatchSums::isSameForAllSamples(Value value, Position position, int64_t samples) {
  std::tuple key(value, position.index, position.outer, samples);
  auto known = sameForAllSamples.find(key);
  if (known != sameForAllSamples.end())
    return known->second;
  bool result = computeSameForAllSamples(value, position, samples);
  return sameForAllSamples[key] = result;
}

/// Returns true if an op computes each index of a factor independently, or reduces over the factor.
static bool isSeparable(const RuleFactor &factor) {
  return factor.kind != RuleFactor::Kind::Whole && !factor.isCoupled;
}

bool BatchSums::computeSameForAllSamples(Value value, Position position, int64_t samples) {
  Operation *op = value.getDefiningOp();
  if (cast<RankedTensorType>(value.getType()).getDimSize(position.index) == 1)
    return true;
  // Random values count as the same, because their distribution is the same for all samples. A
  // variable counts as the same even if it has one element per sample. Such a model accepts only
  // one batch size, so every batch uses these elements.
  if (isa_and_nonnull<RandomOpInterface, ReadOp>(op))
    return true;
  if (auto constant = dyn_cast_or_null<ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    return dense && dense.isSplat();
  }
  if (auto iota = dyn_cast_or_null<IotaOp>(op))
    return iota.getDim() != position.index;
  auto ruled = dyn_cast_or_null<ShardingOpInterface>(op);
  if (!ruled)
    return false;
  ShardingRule rule = ruled.getShardingRule();
  const TensorFactors &dims = rule.results[cast<OpResult>(value).getResultNumber()];
  if (dims[position.index].empty())
    return true;
  std::optional<Position> batch = findFactor(rule, dims, position, samples);
  return batch && isSeparable(rule.factors[batch->index]) &&
         areSameForAllSamples(op, rule, *batch, samples);
}

bool BatchSums::areSameForAllSamples(Operation *op, const ShardingRule &rule, Position position,
                                     int64_t samples) {
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
    std::optional<Position> found = findDim(rule, dims, position);
    if (found && get(operand).kind == State::Kind::None &&
        !isSameForAllSamples(operand, *found, samples))
      return false;
  }
  return true;
}

void BatchSums::visitRows(Operation *op, int64_t samples) {
  setResults(op, {State::Kind::Other, {}, samples});
  if (samples < 1)
    return;
  ShardingRule rule = cast<ShardingOpInterface>(op).getShardingRule();
  std::optional<Position> batch;
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
    State state = get(operand);
    if (state.kind != State::Kind::Rows)
      continue;
    std::optional<Position> own;
    if (state.position.index < dims.size())
      own = findFactor(rule, dims, state.position, samples);
    if (!own || (batch && *batch != *own))
      return;
    batch = own;
  }
  // If an operand that does not depend on the batch differs between samples, the op does not
  // compute the same function for each sample.
  if (!batch || !areSameForAllSamples(op, rule, *batch, samples))
    return;
  const RuleFactor &factor = rule.factors[batch->index];
  if (!isSeparable(factor))
    return;
  for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
    if (std::optional<Position> position = findDim(rule, dims, *batch))
      states[result] = {State::Kind::Rows, *position, samples};
    else if (factor.kind == RuleFactor::Kind::Reduction && factor.reduction == ReductionKind::Sum)
      states[result] = {State::Kind::Sum, {}, samples};
  }
}
