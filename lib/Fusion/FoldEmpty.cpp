// Folds the ops of a class function whose operands or results have no elements.
#include "FoldEmpty.h"
#include "dialects/ps/Refusal.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;
using ps::LoweringKind;

bool fusion::isEmpty(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getNumElements() == 0;
}

/// Returns true if the type can have constants. Tensors of 8-bit floats cannot; their ops are
/// elementwise and remain.
static bool hasConstants(Type type) {
  return !isa<Float8E4M3FNType, Float8E5M2Type>(getElementTypeOrSelf(type));
}

/// Returns true for ops that compute, that is, not for collectives, waits, constants and variable
/// accesses.
static bool isComputing(Operation *op) {
  auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
  if (!lowering || isa<ps::ConstantOp, ps::WaitOp>(op))
    return false;
  LoweringKind kind = lowering.getLoweringKind();
  return kind != LoweringKind::None && kind != LoweringKind::Collective;
}

static void replace(Operation *op, Value result, DenseElementsAttr value) {
  OpBuilder b(op);
  auto constant = ps::ConstantOp::create(b, op->getLoc(), value);
  ps::copyMarks(op, constant);
  result.replaceAllUsesWith(constant.getResult());
}

/// Returns a constant of the type of `result`, filled with `number`.
static DenseElementsAttr makeSplat(Value result, double number) {
  auto type = cast<RankedTensorType>(result.getType());
  if (type.getNumElements() == 0)
    return ps::Tensor(type).toAttr();
  ps::Tensor element(RankedTensorType::get({}, type.getElementType()));
  element.set(0, number);
  return element.toAttr().resizeSplat(type);
}

/// Evaluates an op whose operands are all empty tensors, and replaces its results by constants.
static void replaceByEvaluation(Operation *op) {
  SmallVector<ps::Tensor> operands;
  for (Value operand : op->getOperands())
    operands.push_back(ps::Tensor(cast<RankedTensorType>(operand.getType())));
  auto results = cast<ps::EvaluateOpInterface>(op).evaluate(operands, ps::EvaluateContext());
  if (succeeded(results))
    for (auto [result, value] : llvm::zip_equal(op->getResults(), *results))
      replace(op, result, value.toAttr());
}

/// Builds the sum of an operand over its contracted labels (a bias gradient). The operand may have
/// elements even if the other operand is empty.
static Value sumOperand(ps::ContractOp op) {
  OpBuilder b(op);
  Value operand = op->getOperand(*op.getSummed());
  SmallVector<int64_t> dims, kept;
  for (auto [dim, label] :
       llvm::enumerate(*op.getSummed() == 0 ? op.getLhsLabels() : op.getRhsLabels())) {
    if (llvm::is_contained(op.getResultLabels(), label))
      kept.push_back(label);
    else
      dims.push_back(dim);
  }
  auto sum = ps::ReduceOp::create(b, op.getLoc(), ps::ReductionKind::Sum, operand, dims);
  SmallVector<int64_t> order;
  for (int64_t label : op.getResultLabels())
    if (const auto *at = llvm::find(kept, label); at != kept.end())
      order.push_back(at - kept.begin());
  auto ordered = ps::TransposeOp::create(b, op.getLoc(), op.getSecond().getType(), sum,
                                         b.getDenseI64ArrayAttr(order));
  ps::copyMarks(op, sum);
  ps::copyMarks(op, ordered);
  return ordered;
}

static Value broadcastBias(ps::ContractOp op) {
  OpBuilder b(op);
  auto type = cast<RankedTensorType>(op.getType());
  int64_t rank = type.getRank(), dims = cast<RankedTensorType>(op.getBias().getType()).getRank();
  auto last = llvm::to_vector(llvm::seq(rank - dims, rank));
  auto broadcast =
      ps::BroadcastOp::create(b, op.getLoc(), type, op.getBias(), b.getDenseI64ArrayAttr(last));
  ps::copyMarks(op, broadcast);
  return broadcast;
}

/// Replaces a contraction of empty operands by 0, or by the bias.
static void replaceContraction(ps::ContractOp op) {
  if (op.getSummed() && !isEmpty(op->getOperand(*op.getSummed())))
    op.getSecond().replaceAllUsesWith(sumOperand(op));
  if (op.getBias() && !isEmpty(op.getResult()))
    op.getResult().replaceAllUsesWith(broadcastBias(op));
  for (Value result : op->getResults())
    if (!result.use_empty())
      replace(op, result, makeSplat(result, 0));
}

/// Returns true for an attention whose head dim has elements. An empty operand of such an attention
/// has no query or no key. Returns false for other ops.
static bool hasNoPairs(Operation *op) {
  constexpr unsigned kHeadDim = 3;
  Value keys;
  if (auto attention = dyn_cast<ps::AttentionOp>(op))
    keys = attention.getKey();
  else if (auto grad = dyn_cast<ps::AttentionGradOp>(op))
    keys = grad.getKey();
  return keys && cast<RankedTensorType>(keys.getType()).getDimSize(kHeadDim) > 0;
}

/// Replaces attention without keys by zeros, and a cross-entropy over no classes by 0, because all
/// its labels are ignored. The log-sum-exp over no elements is -inf.
static void replaceSoftmax(Operation *op) {
  bool isForward = isa<ps::AttentionOp, ps::CrossEntropyOp>(op);
  for (OpResult result : op->getResults()) {
    bool isLse = isForward && result.getResultNumber() == 1;
    replace(op, result, makeSplat(result, isLse ? -std::numeric_limits<double>::infinity() : 0));
  }
}

static LogicalResult foldEmpty(Operation *op) {
  if (llvm::all_of(op->getResults(), isEmpty)) {
    for (Value result : op->getResults())
      replace(op, result, makeSplat(result, 0));
  } else if (auto contract = dyn_cast<ps::ContractOp>(op)) {
    replaceContraction(contract);
  } else if (hasNoPairs(op) || isa<ps::CrossEntropyOp>(op)) {
    replaceSoftmax(op);
  } else if (auto reduce = dyn_cast<ps::ReduceOp>(op); reduce && isEmpty(reduce.getOperand())) {
    auto type = cast<RankedTensorType>(reduce.getType()); // may be large, so uses a splat
    Attribute identity = ps::getIdentity(reduce.getKind(), type.getElementType());
    replace(op, reduce.getResult(), DenseElementsAttr::get(type, identity));
  } else if (isa<ps::EvaluateOpInterface>(op) && llvm::all_of(op->getOperands(), isEmpty)) {
    replaceByEvaluation(op);
  } else if (isa<ps::AttentionOp, ps::AttentionGradOp>(op)) {
    return ps::refuse(op)
           << "attention with a mask or dropout has heads of size 0, which is not supported; "
              "remove the attention";
  }
  return success();
}

LogicalResult fusion::foldEmpty(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    bool isTouched =
        llvm::any_of(op.getOperands(), isEmpty) || llvm::any_of(op.getResults(), isEmpty);
    if (!isComputing(&op) || op.getNumResults() == 0 || !isTouched ||
        !llvm::all_of(op.getResultTypes(), hasConstants))
      continue;
    if (failed(::foldEmpty(&op)))
      return failure();
    if (op.use_empty())
      op.erase();
  }
  return success();
}
