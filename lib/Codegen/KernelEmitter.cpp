// Evaluates values of fused ops at the current position of a kernel.
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;

KernelEmitter::KernelEmitter(ps::FusedOp op, const Piece &piece, const IterationSpace &space,
                             const FusedContext &context, ModuleOp module, StringRef name)
    : op(op), piece(piece), space(space), context(context), module(module), name(name),
      b(module.getContext()), loc(op.getLoc()), lanes(*this, b, op.getLoc()) {}

Value KernelEmitter::inRowScope(llvm::function_ref<Value()> fn) {
  OpBuilder::InsertionGuard guard(b);
  if (loopOp)
    b.setInsertionPoint(loopOp);
  Position before = std::exchange(position, Position());
  auto values = std::exchange(atPosition, decltype(atPosition)());
  auto sources = std::exchange(sourceAtPosition, decltype(sourceAtPosition)());
  Value result = fn();
  position = before;
  atPosition = std::move(values);
  sourceAtPosition = std::move(sources);
  return result;
}

//===----------------------------------------------------------------------===//
// Values from outside the group
//===----------------------------------------------------------------------===//

Value KernelEmitter::bufferOf(Value source) {
  if (Value pointer = pointers.lookup(source))
    return pointer;
  return pointers[source] = constantBuffer(source.getDefiningOp<ps::ConstantOp>());
}

Value KernelEmitter::iota(const Access &access, Type element) {
  Value index = splat(rowOffset(access));
  if (int64_t stride = access.strides.back(); stride != 0 && position.column) {
    Value step = splat(constant(stride));
    index =
        arith::AddIOp::create(b, loc, index, arith::MulIOp::create(b, loc, columnLanes(), step));
  }
  Type type = laneType(element);
  if (isa<FloatType>(element))
    return arith::SIToFPOp::create(b, loc, type, index);
  if (element.isInteger(64))
    return index;
  return arith::TruncIOp::create(b, loc, type, index);
}

static Value splatConstant(OpBuilder &b, Location loc, ps::ConstantOp constant, Type type) {
  auto value =
      cast<TypedAttr>(cast<DenseElementsAttr>(constant.getValue()).getSplatValue<Attribute>());
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, loc,
                                     DenseElementsAttr::get(vector, ArrayRef<Attribute>(value)));
  return arith::ConstantOp::create(b, loc, value);
}

Value KernelEmitter::evaluateSource(const Access &access, Type element) {
  if (auto constantOp = access.source.getDefiningOp<ps::ConstantOp>();
      constantOp && constantOp.getValue().isSplat())
    return splatConstant(b, loc, constantOp, laneType(element));
  if (!isa<RankedTensorType>(access.source.getType()))
    return splat(pointers.lookup(access.source));
  if (access.source.getDefiningOp<ps::IotaOp>())
    return iota(access, element);
  int64_t stride = access.strides.back();
  if (stride == 0 || !position.column) {
    Value &scalar = sourceOfRow[&access];
    if (!scalar)
      scalar = inRowScope(
          [&] { return loadLanes(bufferOf(access.source), element, rowOffset(access), 0); });
    return splat(scalar);
  }
  if (Value value = sourceAtPosition.lookup(&access))
    return value;
  Value base = bufferOf(access.source);
  Value row = inRowScope([&] { return rowOffset(access); });
  return sourceAtPosition[&access] = loadLanes(base, element, row, stride);
}

//===----------------------------------------------------------------------===//
// Values computed in the group
//===----------------------------------------------------------------------===//

Value KernelEmitter::evaluateElement(Value value) {
  Operation *computing = value.getDefiningOp();
  if (auto column = columns.find(value); column != columns.end())
    return column->second(lanes);
  SmallVector<Value> operands;
  for (OpOperand &operand : computing->getOpOperands())
    operands.push_back(evaluate(space.getAccess(operand)));
  Operation *before = std::exchange(currentOp, computing);
  Value result = cast<ps::LoweringOpInterface>(computing).emitElement(lanes, operands);
  currentOp = before;
  if (!result) {
    if (!failed)
      computing->emitError() << "'" << computing->getName() << "' has no code for this target";
    failed = true;
    result = arith::ConstantOp::create(
        b, loc, b.getZeroAttr(laneType(getElementTypeOrSelf(value.getType()))));
  }
  return splat(result);
}

Value KernelEmitter::evaluateRowValue(Value value) {
  if (Value scalar = rowScalars.lookup(value))
    return scalar;
  Value scalar = inRowScope([&] { return evaluateElement(value); });
  return rowScalars[value] = scalar;
}

Value KernelEmitter::evaluateComputed(Value value) {
  if (!space.hasColumns(value))
    return splat(evaluateRowValue(value));
  if (auto kept = keptValues.find(value); kept != keptValues.end())
    return read(kept->second);
  if (Value known = atPosition.lookup(value))
    return known;
  Value result = evaluateElement(value);
  return atPosition[value] = result;
}

Value KernelEmitter::evaluate(const Access &access) {
  if (!isa<RankedTensorType>(access.source.getType()))
    return evaluateSource(access, access.source.getType());
  Operation *source = access.source.getDefiningOp();
  if (source && !isa<ps::ConstantOp, ps::IotaOp>(source))
    return evaluateComputed(access.source);
  return evaluateSource(access, getElementTypeOrSelf(access.source.getType()));
}

Value KernelEmitter::evaluateRow(const Access &access) {
  Position before = std::exchange(position, Position());
  Value scalar = evaluate(access);
  position = before;
  return scalar;
}

Value KernelEmitter::evaluateAt(const Access &access, Value column) {
  Position before = std::exchange(position, Position{1, 1, column});
  auto values = std::exchange(atPosition, decltype(atPosition)());
  auto sources = std::exchange(sourceAtPosition, decltype(sourceAtPosition)());
  auto kept = std::exchange(keptAtPosition, decltype(keptAtPosition)());
  bool columnsBefore = std::exchange(inColumns, false);
  Value scalar = evaluate(access);
  position = before;
  atPosition = std::move(values);
  sourceAtPosition = std::move(sources);
  keptAtPosition = std::move(kept);
  inColumns = columnsBefore;
  return scalar;
}

//===----------------------------------------------------------------------===//
// Kept values
//===----------------------------------------------------------------------===//

std::shared_ptr<Kept> KernelEmitter::keep(Column column, Type element) {
  auto kept = std::make_shared<Kept>();
  kept->column = std::move(column);
  kept->element = element;
  return kept;
}
