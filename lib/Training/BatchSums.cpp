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
      states[argument] = {State::Kind::Rows, unsigned(dim), type.getDimSize(dim)};
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
    return state.dim;
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
  setResults(op, {isSum ? State::Kind::Sum : State::Kind::Other, 0, samples});
}

bool BatchSums::isAlike(Value value, unsigned dim) {
  auto known = alike.find({value, dim});
  if (known != alike.end())
    return known->second;
  bool result = computeAlike(value, dim);
  return alike[{value, dim}] = result;
}

bool BatchSums::computeAlike(Value value, unsigned dim) {
  Operation *op = value.getDefiningOp();
  if (cast<RankedTensorType>(value.getType()).getDimSize(dim) == 1 ||
      isa_and_nonnull<RandomOpInterface, ReadOp>(op))
    return true; // a variable that has a place for each sample is one of a batch of that size
  if (auto constant = dyn_cast_or_null<ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    return dense && dense.isSplat();
  }
  if (auto iota = dyn_cast_or_null<IotaOp>(op))
    return iota.getDim() != dim;
  auto ruled = dyn_cast_or_null<ShardingOpInterface>(op);
  if (!ruled)
    return false;
  ShardingRule rule = ruled.getShardingRule();
  const DimFactors &factors = rule.results[cast<OpResult>(value).getResultNumber()][dim];
  if (factors.empty() || rule.factors[factors.front()].kind == RuleFactor::Kind::Whole)
    return factors.empty();
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
    for (auto [i, own] : llvm::enumerate(dims))
      if (llvm::is_contained(own, factors.front()) &&
          (own.front() != factors.front() || !isAlike(operand, i)))
        return false;
  return true;
}

void BatchSums::visitRows(Operation *op, int64_t samples) {
  setResults(op, {State::Kind::Other, 0, samples});
  ShardingRule rule = cast<ShardingOpInterface>(op).getShardingRule();
  std::optional<unsigned> batch;
  for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands)) {
    State state = get(operand);
    if (state.kind != State::Kind::Rows)
      continue;
    if (state.dim >= factors.size() || factors[state.dim].empty() ||
        (batch && *batch != factors[state.dim].front()))
      return;
    batch = factors[state.dim].front();
  }
  // A factor that is no whole number of batches cuts the batch apart.
  if (!batch || samples < 1 || rule.factors[*batch].size % samples != 0)
    return;
  for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands))
    for (auto [dim, own] : llvm::enumerate(factors))
      if (get(operand).kind == State::Kind::None && llvm::is_contained(own, *batch) &&
          !isAlike(operand, dim))
        return; // each place in the batch has numbers of its own
  const RuleFactor &factor = rule.factors[*batch];
  if (factor.kind == RuleFactor::Kind::Whole)
    return;
  for (auto [result, factors] : llvm::zip(op->getResults(), rule.results)) {
    auto *dim = llvm::find_if(
        factors, [&](const DimFactors &list) { return !list.empty() && list.front() == *batch; });
    if (dim != factors.end())
      states[result] = {State::Kind::Rows, unsigned(dim - factors.begin()), samples};
    else if (factor.kind == RuleFactor::Kind::Reduction && factor.reduction == ReductionKind::Sum)
      states[result] = {State::Kind::Sum, 0, samples};
  }
}
