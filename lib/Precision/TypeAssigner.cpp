// Gives the values of a function their types by the classes of its ops.
#include "TypeAssigner.h"
#include "lib/IR/Cloneable.h"
#include "lib/IR/Stages.h"
#include "lib/IR/Symbols.h"

using namespace mlir;

namespace parashard {
using namespace ps;

TypeAssigner::TypeAssigner(func::FuncOp function, const OpClasses &classes, FloatType narrow,
                           bool all)
    : function(function), classes(classes), narrow(narrow),
      wide(Float32Type::get(function.getContext())), all(all),
      cloneable(findCloneableOps(function)) {
  for (BlockArgument argument : function.getArguments())
    if (isa<FloatType>(getElementTypeOrSelf(argument.getType())))
      active.insert(argument);
}

void TypeAssigner::run() {
  Block &block = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    assign(&op);
  matchResults(block.getTerminator());
}

bool TypeAssigner::isOwn(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && (type.getElementType() == wide || type.getElementType() == narrow);
}

static VariableOp getVariable(Operation *op, FlatSymbolRefAttr symbol) {
  return SymbolTable::lookupNearestSymbolFrom<VariableOp>(op, symbol);
}

void TypeAssigner::matchVariable(Operation *op) {
  auto variable = getVariable(op, op->getAttrOfType<FlatSymbolRefAttr>("variable"));
  if (auto read = dyn_cast<ReadOp>(op)) {
    read.getResult().setType(variable.getTensorType());
    if (variable.getKind() == VariableKind::Parameter)
      active.insert(read.getResult());
    return;
  }
  auto type = dyn_cast<FloatType>(variable.getTensorType().getElementType());
  if (Value value = op->getOperand(0); type && isOwn(value))
    op->setOperand(0, convert(value, type, op));
}

void TypeAssigner::matchResults(Operation *end) {
  for (OpOperand &operand : end->getOpOperands()) {
    Type type = getElementTypeOrSelf(function.getResultTypes()[operand.getOperandNumber()]);
    if (isOwn(operand.get()))
      operand.set(convert(operand.get(), cast<FloatType>(type), end));
  }
}

void TypeAssigner::assign(Operation *op) {
  if (isa<ReadOp, WriteOp, AccumulateOp>(op))
    return matchVariable(op);
  bool isActive = llvm::any_of(op->getOperands(), [&](Value v) { return active.contains(v); });
  if (isActive)
    active.insert(op->result_begin(), op->result_end());
  ps::OpPrecision row = classes.lookup(op);
  FloatType type = isa<ConvertOp>(op) ? FloatType() : chooseType(op, precision);
  if (!type)
    return;
  // With a number that the narrow type has not: rounded once, at the end, as a scalar operand in
  // PyTorch.
  bool roundsAtEnd =
      type == narrow && precision.kind == ps::PrecisionClass::Widest && hasInexactNumber(op);
  if (roundsAtEnd)
    type = wide;
  for (OpOperand &operand : op->getOpOperands())
    if (isOwn(operand.get()) && operand.getOperandNumber() < unsigned(precision.operands))
      operand.set(convert(operand.get(), type, op));
  bool isGradient = precision.kind == ps::PrecisionClass::Compute && !all &&
                    getPhase(op) == Phase::BackwardWeight;
  for (OpResult result : op->getResults())
    if (isOwn(result) && result.getResultNumber() < unsigned(precision.results))
      result.setType(cast<RankedTensorType>(result.getType()).clone(isGradient ? wide : type));
  if (roundsAtEnd)
    for (OpResult result : op->getResults())
      narrowUses(result);
  bool moves = isa<ReshapeOp, TransposeOp>(op) && computed.contains(op->getOperand(0));
  if (precision.kind == ps::PrecisionClass::Compute || moves)
    computed.insert(op->result_begin(), op->result_end());
}

Operation *getOrigin(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<BroadcastOp, ReshapeOp, TransposeOp, SliceOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

static bool isSplat(Value value) {
  auto constant = dyn_cast_or_null<ConstantOp>(getOrigin(value));
  return constant && constant.getValue().isSplat();
}

bool TypeAssigner::hasInexactNumber(Operation *op) const {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    if (!isOwn(operand) || !isSplat(operand))
      return false;
    auto numbers = cast<DenseFPElementsAttr>(cast<ConstantOp>(getOrigin(operand)).getValue());
    APFloat value = numbers.getSplatValue<APFloat>();
    bool loses = false;
    value.convert(narrow.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
    return loses;
  });
}

/// All that is to use a result uses it narrowed.
void TypeAssigner::narrowUses(OpResult result) {
  if (!isOwn(result))
    return;
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : result.getUses())
    uses.push_back(&use);
  for (OpOperand *use : uses)
    use->set(convert(result, narrow, use->getOwner()));
}

FloatType TypeAssigner::chooseType(Operation *op, const ps::OpPrecision &precision) {
  bool isActive = llvm::any_of(op->getOperands(), [&](Value v) { return active.contains(v); });
  if (precision.kind == ps::PrecisionClass::Compute && isActive)
    return narrow;
  if (precision.kind == ps::PrecisionClass::Fp32)
    return wide;
  return chooseWidest(op, op->getOperands().take_front(
                              std::min<unsigned>(precision.operands, op->getNumOperands())));
}

/// A parameter that is added to what a `compute` op yields has no type of its own there.
bool TypeAssigner::isBiasOf(Value bias, Value sum) {
  auto read = dyn_cast_or_null<ReadOp>(getOrigin(bias));
  return read && active.contains(read.getResult()) && computed.contains(sum);
}

FloatType TypeAssigner::chooseWidest(Operation *op, ValueRange operands) {
  if (isa<AddOp>(op))
    for (auto [x, y] : {std::pair(operands[0], operands[1]), {operands[1], operands[0]}})
      if (isOwn(x) && isOwn(y) && isBiasOf(x, y))
        return cast<FloatType>(getElementTypeOrSelf(y.getType()));
  FloatType widest;
  for (Value operand : operands)
    if (isOwn(operand) && !isSplat(operand) && widest != wide)
      widest = cast<FloatType>(getElementTypeOrSelf(operand.getType()));
  return widest;
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

Value TypeAssigner::convert(Value value, FloatType type, Operation *user) {
  if (getElementTypeOrSelf(value.getType()) == type)
    return value;
  auto known = value.getDefiningOp<ConvertOp>();
  if (known && type == narrow && getElementTypeOrSelf(known.getOperand().getType()) == narrow)
    return known.getOperand(); // widening loses nothing
  // What is widened in forward is widened again in backward, so that the narrow value is saved.
  bool isApart = type == wide && isBackward(user);
  Value &result = converted[{value, type, unsigned(isApart)}];
  if (!result)
    result = makeConvert(value, type, user)->getResult(0);
  return result;
}

/// What is narrowed belongs to the op that made it: it is what crosses segments and is saved. What
/// is widened belongs to its user.
Operation *TypeAssigner::makeConvert(Value value, FloatType type, Operation *user) {
  Operation *producer = value.getDefiningOp();
  bool atProducer = type == narrow && producer && !cloneable.contains(producer);
  bool isResult = user->hasTrait<OpTrait::IsTerminator>() && producer;
  Operation *owner = atProducer || isResult ? producer : user;
  OpBuilder builder(user);
  if (atProducer)
    builder.setInsertionPointAfter(producer);
  Operation *made = ConvertOp::create(builder, owner->getLoc(),
                                      cast<RankedTensorType>(value.getType()).clone(type), value);
  copyMarks(owner, made);
  if (active.contains(value))
    active.insert(made->getResult(0));
  bool isOfWeight = producer && getPhase(producer) == Phase::BackwardWeight;
  if (getPhase(made) == Phase::BackwardWeight && !isOfWeight)
    setPhase(made, Phase::BackwardInput);
  return made;
}

} // namespace parashard
