// Follows the batch through the sharding rules of a block's ops.
#include "BatchSums.h"
#include "dialects/ps/Ps.h"
#include "parashard/Training.h"

using namespace mlir;
using namespace parashard;
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
    return state.place.outer == 1 ? state.place.index : kWholeBatch;
  if (state.samples > 1 || shape.empty())
    return kWholeBatch;
  auto *one = llvm::find(shape, 1);
  return one == shape.end() ? 0 : one - shape.begin();
}

bool BatchSums::isNoSum(Value value) const {
  State state = get(value);
  return state.kind != State::Kind::None && state.kind != State::Kind::Sum && state.samples > 1;
}

void BatchSums::setResults(Operation *op, State state) {
  for (Value result : op->getResults())
    states[result] = state;
}

/// Whether the op adds its operands up, or moves them, and does nothing else.
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
    // What depends on the batch in two ways, or on batches of two sizes, is none of ours.
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

/// Returns the factor that holds samples at `place` of a tensor's dims; nullopt where factors cut
/// them apart, or the tensor has no elements.
std::optional<BatchSums::Place> BatchSums::findFactor(const ShardingRule &rule,
                                                      const TensorFactors &dims, Place place,
                                                      int64_t samples) {
  int64_t before = 1;
  for (unsigned factor : dims[place.index]) {
    int64_t size = rule.factors[factor].size;
    if (size == 0 || place.outer == 0)
      break;
    if (place.outer % before == 0 && size % (place.outer / before * samples) == 0)
      return Place{factor, place.outer / before};
    before *= size;
  }
  return std::nullopt;
}

/// Returns the place in a tensor's dims of samples that stand at `place` of the factors; nullopt
/// where the tensor does not have the factor.
std::optional<BatchSums::Place> BatchSums::findDim(const ShardingRule &rule,
                                                   const TensorFactors &dims, Place place) {
  for (auto [dim, factors] : llvm::enumerate(dims)) {
    int64_t before = 1;
    for (unsigned factor : factors) {
      if (factor == place.index)
        return Place{unsigned(dim), before * place.outer};
      before *= rule.factors[factor].size;
    }
  }
  return std::nullopt;
}

bool BatchSums::isAlike(Value value, Place place, int64_t samples) {
  std::tuple key(value, place.index, place.outer, samples);
  auto known = alike.find(key);
  if (known != alike.end())
    return known->second;
  bool result = computeAlike(value, place, samples);
  return alike[key] = result;
}

/// Whether an op treats the places along a factor apart, or adds them up.
static bool isApart(const RuleFactor &factor) {
  return factor.kind != RuleFactor::Kind::Whole && !factor.isCoupled;
}

bool BatchSums::computeAlike(Value value, Place place, int64_t samples) {
  Operation *op = value.getDefiningOp();
  if (cast<RankedTensorType>(value.getType()).getDimSize(place.index) == 1 ||
      isa_and_nonnull<RandomOpInterface, ReadOp>(op))
    return true; // a variable that has a place for each sample is one of a batch of that size
  if (auto constant = dyn_cast_or_null<ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    return dense && dense.isSplat();
  }
  if (auto iota = dyn_cast_or_null<IotaOp>(op))
    return iota.getDim() != place.index;
  auto ruled = dyn_cast_or_null<ShardingOpInterface>(op);
  if (!ruled)
    return false;
  ShardingRule rule = ruled.getShardingRule();
  const TensorFactors &dims = rule.results[cast<OpResult>(value).getResultNumber()];
  if (dims[place.index].empty())
    return true;
  std::optional<Place> batch = findFactor(rule, dims, place, samples);
  return batch && isApart(rule.factors[batch->index]) && areAlike(op, rule, *batch, samples);
}

bool BatchSums::areAlike(Operation *op, const ShardingRule &rule, Place place, int64_t samples) {
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
    std::optional<Place> found = findDim(rule, dims, place);
    if (found && get(operand).kind == State::Kind::None && !isAlike(operand, *found, samples))
      return false;
  }
  return true;
}

void BatchSums::visitRows(Operation *op, int64_t samples) {
  setResults(op, {State::Kind::Other, {}, samples});
  if (samples < 1)
    return;
  ShardingRule rule = cast<ShardingOpInterface>(op).getShardingRule();
  std::optional<Place> batch;
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
    State state = get(operand);
    if (state.kind != State::Kind::Rows)
      continue;
    std::optional<Place> own;
    if (state.place.index < dims.size())
      own = findFactor(rule, dims, state.place, samples);
    if (!own || (batch && *batch != *own))
      return;
    batch = own;
  }
  // Each place in the batch may have numbers of its own, which no other batch has.
  if (!batch || !areAlike(op, rule, *batch, samples))
    return;
  const RuleFactor &factor = rule.factors[batch->index];
  if (!isApart(factor))
    return;
  for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
    if (std::optional<Place> place = findDim(rule, dims, *batch))
      states[result] = {State::Kind::Rows, *place, samples};
    else if (factor.kind == RuleFactor::Kind::Reduction && factor.reduction == ReductionKind::Sum)
      states[result] = {State::Kind::Sum, {}, samples};
  }
}
