// Implements reverse-mode differentiation of a block.
#include "Backward.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/Symbols.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::training;
using namespace parashard::ir;
using namespace parashard::ps;

static bool isFloat(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

/// Returns true if the op of `operand` can pass a cotangent to `operand`. Also returns true for a
/// floating-point operand of an op without a derivative, so that `differentiate` reports an error
/// instead of a silent zero.
static bool passesCotangent(OpOperand &operand) {
  if (!isFloat(operand.get()))
    return false;
  auto op = dyn_cast<DifferentiableOpInterface>(operand.getOwner());
  return !op || op.isDifferentiable(operand.getOperandNumber());
}

Backward::Backward(Block &block, llvm::function_ref<bool(SymbolRefAttr)> isTrained) : block(block) {
  Builder builder(block.getParentOp()->getContext());
  for (Operation &op : block.without_terminator()) {
    op.setAttr(kOriginMark, builder.getI64IntegerAttr(forward.size()));
    ordinals[&op] = forward.size();
    forward.push_back(&op);
    auto read = dyn_cast<ReadOp>(op);
    bool isSource = read && read.getVariableAttr() && isFloat(read.getResult()) &&
                    isTrained(read.getVariableAttr());
    bool depends = llvm::any_of(op.getOpOperands(), [&](OpOperand &operand) {
      return active.contains(operand.get()) && passesCotangent(operand);
    });
    if (isSource || depends)
      for (Value result : op.getResults())
        if (isFloat(result))
          active.insert(result);
  }
}

BackwardBuilder Backward::makeBuilder(Operation *op, llvm::ArrayRef<bool> needed) {
  return BackwardBuilder(op, ordinals.lookup(op), needed);
}

BackwardBuilder Backward::makeBuilder(Value value) {
  Operation *op = value.getDefiningOp();
  return makeBuilder(op ? op : &block.front(), {});
}

void Backward::seed(Value value, Value cotangent) {
  if (cotangent && isActive(value))
    cotangents[value].push_back(cotangent);
}

/// Removes the cotangents of a value and returns their sum, or null if there are none. Adds the
/// cotangents in the order of the forward ops that use the value. Example: a layer's input is used
/// by query, key and value projections, then by the residual. The cotangents of the projections
/// (partial sums over the tensor axis) are added first, then the cotangent of the residual.
Value Backward::takeSum(Value value) {
  auto it = cotangents.find(value);
  if (it == cotangents.end())
    return {};
  llvm::SmallVector<Value> terms = std::move(it->second);
  cotangents.erase(it);
  BackwardBuilder builder = makeBuilder(value);
  builder.setInsertionPoint(block.getTerminator());
  Value sum = terms.back();
  for (Value term : llvm::drop_begin(llvm::reverse(terms)))
    sum = builder.make<AddOp>(sum.getType(), sum, term);
  return sum;
}

LogicalResult Backward::differentiate(Operation *op) {
  llvm::SmallVector<Value> given;
  for (Value result : op->getResults())
    given.push_back(takeSum(result));
  if (llvm::none_of(given, [](Value value) { return bool(value); }))
    return success();
  llvm::SmallVector<bool> needed;
  for (OpOperand &operand : op->getOpOperands())
    needed.push_back(isActive(operand.get()) && passesCotangent(operand));
  if (llvm::none_of(needed, [](bool need) { return need; }))
    return success();
  auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
  if (!differentiable)
    return refuse(op) << "'" << op->getName()
                      << "' has no derivative, but a trained parameter gets its gradient through "
                         "this op; freeze the parameter, or remove the op from the path between "
                         "parameter and loss";
  BackwardBuilder builder = makeBuilder(op, needed);
  builder.setInsertionPoint(block.getTerminator());
  auto answer = differentiable.differentiate(builder, given);
  if (failed(answer))
    return failure();
  for (auto [i, cotangent] : llvm::enumerate(*answer)) {
    if (!cotangent || !needed[i])
      continue;
    Value operand = op->getOperand(i);
    if (cotangent.getType() != operand.getType())
      return op->emitOpError("returned a cotangent of type ")
             << cotangent.getType() << " for operand " << i << " of type " << operand.getType();
    seed(operand, cotangent);
  }
  return success();
}

LogicalResult Backward::run() {
  for (Operation *op : llvm::reverse(forward)) {
    auto read = dyn_cast<ReadOp>(op);
    if (!read) {
      if (failed(differentiate(op)))
        return failure();
      continue;
    }
    auto it = cotangents.find(read.getResult());
    if (it == cotangents.end())
      continue;
    for (Value contribution : it->second)
      gradients[read.getVariableAttr()].push_back({contribution, read});
    cotangents.erase(it);
  }
  return success();
}

void training::spreadWeightPhase(Block &block) {
  for (Operation &op : block)
    if (getPhase(&op) == Phase::BackwardInput && llvm::any_of(op.getOperands(), [](Value operand) {
          Operation *producer = operand.getDefiningOp();
          return producer && getPhase(producer) == Phase::BackwardWeight;
        }))
      setPhase(&op, Phase::BackwardWeight);
}
