// Assigns types to the values of a function by the precision classes of its ops.
#include "TypeAssigner.h"
#include "lib/IR/Cloneable.h"
#include "lib/IR/Stages.h"
#include "lib/IR/Symbols.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::precision {

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

bool TypeAssigner::isConvertible(Value value) const {
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
  if (Value value = op->getOperand(0); type && isConvertible(value))
    op->setOperand(0, convert(value, type, op));
}

void TypeAssigner::matchResults(Operation *end) {
  for (OpOperand &operand : end->getOpOperands()) {
    Type type = getElementTypeOrSelf(function.getResultTypes()[operand.getOperandNumber()]);
    if (isConvertible(operand.get()))
      operand.set(convert(operand.get(), cast<FloatType>(type), end));
  }
}

void TypeAssigner::assign(Operation *op) {
  if (isa<ReadOp, WriteOp, AccumulateOp>(op))
    return matchVariable(op);
  bool isActive = llvm::any_of(op->getOperands(), [&](Value v) { return active.contains(v); });
  if (isActive)
    active.insert(op->result_begin(), op->result_end());
  ps::OpPrecision precision = classes.lookup(op);
  FloatType type = isa<ConvertOp>(op) ? FloatType() : chooseType(op, precision);
  if (!type)
    return;
  // If the narrow type cannot represent a constant operand exactly, the op computes in f32, and its
  // result is rounded once. PyTorch does the same with scalar operands.
  bool roundsAtEnd =
      type == narrow && precision.kind == ps::PrecisionClass::Widest && hasInexactNumber(op);
  if (roundsAtEnd)
    type = wide;
  for (OpOperand &operand : op->getOpOperands())
    if (isConvertible(operand.get()) && operand.getOperandNumber() < unsigned(precision.operands))
      operand.set(convert(operand.get(), type, op));
  bool isGradient = precision.kind == ps::PrecisionClass::Compute && !all &&
                    getPhase(op) == Phase::BackwardWeight;
  for (OpResult result : op->getResults())
    if (isConvertible(result) && result.getResultNumber() < unsigned(precision.results))
      result.setType(cast<RankedTensorType>(result.getType()).clone(isGradient ? wide : type));
  if (roundsAtEnd)
    for (OpResult result : op->getResults())
      narrowUses(result);
  bool isView = isa<ReshapeOp, TransposeOp>(op) && computed.contains(op->getOperand(0));
  if (precision.kind == ps::PrecisionClass::Compute || isView)
    computed.insert(op->result_begin(), op->result_end());
}

Operation *skipViews(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<BroadcastOp, ReshapeOp, TransposeOp, SliceOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

static bool isSplat(Value value) {
  auto constant = dyn_cast_or_null<ConstantOp>(skipViews(value));
  return constant && constant.getValue().isSplat();
}

bool TypeAssigner::hasInexactNumber(Operation *op) const {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    if (!isConvertible(operand) || !isSplat(operand))
      return false;
    auto numbers = cast<DenseFPElementsAttr>(cast<ConstantOp>(skipViews(operand)).getValue());
    APFloat value = numbers.getSplatValue<APFloat>();
    bool loses = false;
    value.convert(narrow.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
    return loses;
  });
}

/// Makes all users of `result` read its conversion to the narrow type.
void TypeAssigner::narrowUses(OpResult result) {
  if (!isConvertible(result))
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

/// Returns true if `bias` is a parameter and `sum` is the result of a `Compute` op. The bias is
/// then converted to the type of `sum`.
bool TypeAssigner::isBiasOf(Value bias, Value sum) {
  auto read = dyn_cast_or_null<ReadOp>(skipViews(bias));
  return read && active.contains(read.getResult()) && computed.contains(sum);
}

FloatType TypeAssigner::chooseWidest(Operation *op, ValueRange operands) {
  if (isa<AddOp>(op))
    for (auto [x, y] : {std::pair(operands[0], operands[1]), {operands[1], operands[0]}})
      if (isConvertible(x) && isConvertible(y) && isBiasOf(x, y))
        return cast<FloatType>(getElementTypeOrSelf(y.getType()));
  FloatType widest;
  for (Value operand : operands)
    if (isConvertible(operand) && !isSplat(operand) && widest != wide)
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
    return known.getOperand(); // widening was lossless
  // The backward has its own widening conversions, so that the narrow value is saved for backward.
  bool isSeparate = type == wide && isBackward(user);
  Value &result = converted[{value, type, unsigned(isSeparate)}];
  if (!result)
    result = makeConvert(value, type, user)->getResult(0);
  return result;
}

/// Creates a conversion. A narrowing conversion has the attributes (segment, phase) of the
/// producer, so that the narrow value is sent between segments and saved for backward. Every other
/// conversion widens a value, or converts an argument or the result of a cloneable op. Such a
/// conversion has the attributes of its user, with one exception: phase `backward_weight` becomes
/// `backward_input`, unless the producer is in `backward_weight`. If the user is the return, the
/// conversion has the attributes of the producer, if any.
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
  bool isInBackwardWeight = producer && getPhase(producer) == Phase::BackwardWeight;
  if (getPhase(made) == Phase::BackwardWeight && !isInBackwardWeight)
    setPhase(made, Phase::BackwardInput);
  return made;
}

} // namespace parashard::precision
