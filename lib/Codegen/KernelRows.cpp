// Emits the loops over rows and columns of fused ops, reductions in a fixed order, and outputs.
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;

/// Number of elements per row of a flat (elementwise) kernel, on a CPU.
static constexpr int64_t kFlatBlock = 1024;

//===----------------------------------------------------------------------===//
// Column loops
//===----------------------------------------------------------------------===//

void KernelEmitter::moveTo(Value column, unsigned lanesHere, unsigned active) {
  position = {lanesHere, active, column};
  atPosition.clear();
  keptAtPosition.clear();
  sourceAtPosition.clear();
}

void KernelEmitter::loop(Value from, Value to, int64_t step, SmallVectorImpl<Value> &carried,
                         llvm::function_ref<void(Value)> body, bool isInner) {
  auto forOp = scf::ForOp::create(b, loc, from, to, constant(step), carried);
  Operation *before = isInner ? loopOp : std::exchange(loopOp, forOp.getOperation());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    carried.assign(forOp.getRegionIterArgs().begin(), forOp.getRegionIterArgs().end());
    body(forOp.getInductionVar());
    if (!carried.empty())
      scf::YieldOp::create(b, loc, carried);
  }
  loopOp = before;
  carried.assign(forOp.getResults().begin(), forOp.getResults().end());
}

void KernelEmitter::endLoop() {
  pending.clear();
  inColumns = false;
  moveTo({}, 1, 1);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Value codegen::combine(OpBuilder &b, Location loc, ps::ReductionKind kind, Value x, Value y) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  if (kind == ps::ReductionKind::Sum)
    return isFloat ? Value(arith::AddFOp::create(b, loc, x, y))
                   : Value(arith::AddIOp::create(b, loc, x, y));
  bool isMax = kind == ps::ReductionKind::Max;
  if (getElementTypeOrSelf(x.getType()).isInteger(1)) // a signed comparison would read true as -1
    return isMax ? Value(arith::OrIOp::create(b, loc, x, y))
                 : Value(arith::AndIOp::create(b, loc, x, y));
  Value better;
  if (isFloat) {
    // Propagates NaN. If x is NaN, `isNan` selects x. If only y is NaN, both comparisons are false
    // and y is selected.
    Value isPast = arith::CmpFOp::create(
        b, loc, isMax ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT, x, y);
    Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, x);
    better = arith::OrIOp::create(b, loc, isPast, isNan);
  } else {
    better = arith::CmpIOp::create(
        b, loc, isMax ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::slt, x, y);
  }
  return arith::SelectOp::create(b, loc, better, x, y);
}

Value codegen::identityOf(OpBuilder &b, Location loc, ps::ReductionKind kind, Type type) {
  TypedAttr value = ps::getIdentity(kind, getElementTypeOrSelf(type));
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, loc,
                                     DenseElementsAttr::get(vector, ArrayRef<Attribute>(value)));
  return arith::ConstantOp::create(b, loc, value);
}

Value codegen::foldLanes(OpBuilder &b, Location loc, ps::ReductionKind kind, Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  if (!type)
    return value;
  for (int64_t half = type.getNumElements() / 2; half > 0; half /= 2) {
    auto low = llvm::to_vector(llvm::seq<int64_t>(0, half)),
         high = llvm::to_vector(llvm::seq<int64_t>(half, 2 * half));
    Value x = vector::ShuffleOp::create(b, loc, value, value, low);
    Value y = vector::ShuffleOp::create(b, loc, value, value, high);
    value = combine(b, loc, kind, x, y);
  }
  return vector::ExtractOp::create(b, loc, value, int64_t(0));
}

Type KernelEmitter::probeElement(const Column &column) {
  // Emits the first lanes into a temporary block to learn the element type.
  OpBuilder::InsertionGuard guard(b);
  Block probe;
  b.setInsertionPointToStart(&probe);
  auto rowScalarsBefore = rowScalars;
  auto sourcesBefore = sourceOfRow;
  Operation *loopBefore = std::exchange(loopOp, nullptr);
  moveTo(constant(0), 1, 1);
  Type element = getElementTypeOrSelf(column(lanes).getType());
  loopOp = loopBefore;
  rowScalars = rowScalarsBefore;
  sourceOfRow = sourcesBefore;
  moveTo({}, 1, 1);
  probe.dropAllReferences();
  return element;
}

//===----------------------------------------------------------------------===//
// Row ops
//===----------------------------------------------------------------------===//

namespace {
/// Gives a Row op access to the emitter.
class FusedRowBuilder : public ps::RowBuilder {
public:
  FusedRowBuilder(KernelEmitter &emitter, Operation *op) : emitter(emitter), op(op) {}

  int64_t getColumns() const override { return emitter.getSpace().getColumns(); }
  Column load(unsigned operand) override {
    return [this, &access = access(operand)](ps::ElementBuilder &) {
      return emitter.evaluate(access);
    };
  }
  Value loadRow(unsigned operand) override { return emitter.evaluateRow(access(operand)); }
  Value loadAt(unsigned operand, Value column) override {
    if (column.getType().isIndex())
      column = arith::IndexCastOp::create(emitter.builder(), emitter.getLoc(),
                                          emitter.builder().getI64Type(), column);
    return emitter.evaluateAt(access(operand), column);
  }
  Value reduce(ps::ReductionKind kind, Column column) override {
    return emitter.reduce(kind, column);
  }
  Column splat(Value scalar) override {
    return [this, scalar](ps::ElementBuilder &) { return emitter.splat(scalar); };
  }
  Column columnIndex() override {
    return [this](ps::ElementBuilder &) { return emitter.columnLanes(); };
  }
  Column keep(Column column, Type element) override {
    std::shared_ptr<Kept> kept = emitter.keep(std::move(column), element);
    return [this, kept](ps::ElementBuilder &) { return emitter.read(kept); };
  }
  void store(unsigned result, Column column) override {
    emitter.define(op->getResult(result), column);
  }
  void storeRow(unsigned result, Value scalar) override {
    emitter.defineRow(op->getResult(result), scalar);
  }
  ps::ElementBuilder &scalars() override { return emitter.getLanes(); }

private:
  const Access &access(unsigned operand) {
    return emitter.getSpace().getAccess(op->getOpOperand(operand));
  }

  KernelEmitter &emitter;
  Operation *op;
};
} // namespace

void KernelEmitter::emitRowOps() {
  for (Operation *rowOp : space.getComputeOps()) {
    auto lowering = cast<ps::LoweringOpInterface>(rowOp);
    if (lowering.getLoweringKind() != ps::LoweringKind::Row)
      continue;
    if (isa<ps::ReduceOp>(rowOp) && space.getLayout(rowOp) == ReductionLayout::Column)
      continue;
    // A row op reads its operands several times, so the kernel keeps operands that are not cheap to
    // recompute.
    for (OpOperand &operand : rowOp->getOpOperands()) {
      Value source = space.getAccess(operand).source;
      Operation *def = source.getDefiningOp();
      if (!def || isa<ps::ConstantOp, ps::IotaOp>(def) || !space.hasColumns(source) ||
          keptValues.contains(source))
        continue;
      keptValues[source] =
          keep([this, source](ps::ElementBuilder &) { return evaluateElement(source); },
               getElementTypeOrSelf(source.getType()));
    }
    rowBuilders.push_back(std::make_unique<FusedRowBuilder>(*this, rowOp));
    currentOp = rowOp;
    if (mlir::failed(lowering.emitRow(*rowBuilders.back()))) {
      rowOp->emitError() << "'" << rowOp->getName() << "' has no code for this target";
      failed = true;
      return;
    }
  }
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

void KernelEmitter::storeOutput(unsigned i) {
  const Output &output = space.getOutputs()[i];
  Type element = getElementTypeOrSelf(output.buffer.source.getType());
  Value value = evaluate(output.value);
  Value base = outputPointers[i];
  Value row = inRowScope([&] { return rowOffset(output.buffer); });
  int64_t stride = output.buffer.strides.back();
  int slot = context.firstSlots[piece.results[i]];
  if (slot >= 0) {
    Value old = loadLanes(base, element, row, position.column ? stride : 0);
    Value sum = combine(b, loc, ps::ReductionKind::Sum, old, value);
    value = arith::SelectOp::create(b, loc, splat(firstFlags[i]), value, sum);
  }
  storeLanes(value, base, element, row, stride);
}

void KernelEmitter::storeOutputs() {
  SmallVector<unsigned> byColumn, byRow;
  for (auto [i, output] : llvm::enumerate(space.getOutputs())) {
    if (llvm::any_of(partials, [&, i = i](const Partial &p) { return p.output == i; }))
      continue;
    bool wide = output.buffer.strides.back() != 0 || (space.getColumns() == 1 && space.isFlat());
    (wide ? byColumn : byRow).push_back(i);
  }
  auto body = [&](unsigned step) {
    for (unsigned i : byColumn)
      storeOutput(i);
    for (Partial &partial : partials)
      addPartial(partial, step);
  };
  SmallVector<Value> none;
  if (space.isFlat()) {
    forElements(space.getColumns(), kFlatBlock, call, [&] { body(0); });
    endLoop();
  } else if (!byColumn.empty() || !partials.empty())
    forColumns(1, none, body);
  if (!byRow.empty())
    beginRowOutputs();
  for (unsigned i : byRow)
    storeOutput(i);
}

//===----------------------------------------------------------------------===//
// Sums over rows
//===----------------------------------------------------------------------===//

void KernelEmitter::setUpPartials(int64_t &workspace) {
  for (auto [i, output] : llvm::enumerate(space.getOutputs())) {
    auto reduceOp = output.value.source.getDefiningOp<ps::ReduceOp>();
    if (!reduceOp || space.getLayout(reduceOp) != ReductionLayout::Column)
      continue;
    Type element = getElementTypeOrSelf(reduceOp.getType());
    bool viaPartials =
        needsPartials(space, output.value.source, context.firstSlots[piece.results[i]] >= 0);
    if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
      element = b.getF32Type();
    Value base = outputPointers[i];
    if (viaPartials) {
      base = takeBuffer(call.buffers.size());
      call.buffers.push_back({KernelCall::Argument::Workspace, 0, workspace, true});
      partialOffsets.push_back(workspace);
      workspace += getPartialBytes(space, element);
    } else {
      partialOffsets.push_back(-1);
    }
    Value first = arith::MulIOp::create(b, loc, chunkNumber(), constant(space.getColumns()));
    partials.push_back(
        {unsigned(i), reduceOp.getKind(), element, pointerAt(base, element, first), !viaPartials});
  }
}

void KernelEmitter::clearPartials() {
  SmallVector<Value> none;
  if (!partials.empty())
    forColumns(1, none, [&](unsigned) {
      for (Partial &partial : partials)
        storeLanes(identityOf(b, loc, partial.kind, laneType(partial.element)), partial.pointer,
                   partial.element, constant(0), 1);
    });
}

Value KernelEmitter::evaluatePartial(Partial &partial) {
  auto reduceOp = space.getOutputs()[partial.output].value.source.getDefiningOp<ps::ReduceOp>();
  Value value = evaluate(space.getAccess(reduceOp->getOpOperand(0)));
  if (getElementTypeOrSelf(value.getType()) != partial.element)
    value = arith::ExtFOp::create(b, loc, laneType(partial.element), value);
  return value;
}

void KernelEmitter::addPartial(Partial &partial, unsigned) {
  Value value = evaluatePartial(partial);
  Value old = loadLanes(partial.pointer, partial.element, constant(0), 1);
  storeLanes(combine(b, loc, partial.kind, old, value), partial.pointer, partial.element,
             constant(0), 1);
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void KernelEmitter::loadPointers() {
  auto take = [&](KernelCall::Argument kind, unsigned index) -> Value {
    Value pointer = takeBuffer(call.buffers.size());
    call.buffers.push_back({kind, index, 0, kind != KernelCall::Argument::Input});
    return pointer;
  };
  llvm::DenseSet<Value> used;
  for (Operation *compute : space.getComputeOps())
    for (OpOperand &operand : compute->getOpOperands())
      used.insert(space.getAccess(operand).source);
  for (const Output &output : space.getOutputs())
    used.insert(output.value.source);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(entryMark);
  for (BlockArgument argument : op.getBody().front().getArguments()) {
    if (!used.contains(argument))
      continue;
    int slot = context.scalarSlots[argument.getArgNumber()];
    pointers[argument] = slot >= 0 ? loadScalarSlot(slot)
                                   : take(KernelCall::Argument::Input, argument.getArgNumber());
  }
  for (unsigned i = 0; i < space.getOutputs().size(); ++i) {
    outputPointers.push_back(take(KernelCall::Argument::Output, piece.results[i]));
    int slot = context.firstSlots[piece.results[i]];
    Value first;
    if (slot >= 0)
      first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, loadScalarSlot(slot),
                                    constant(0));
    firstFlags.push_back(first);
  }
}

void KernelEmitter::emitRow(Value row) {
  ArrayRef<int64_t> sizes = space.getSizes().drop_back();
  rowIndices.assign(sizes.size(), Value());
  for (int64_t i = int64_t(sizes.size()) - 1; i >= 0; --i) {
    if (i == 0) {
      rowIndices[i] = row;
      break;
    }
    rowIndices[i] = arith::RemUIOp::create(b, loc, row, constant(sizes[i]));
    row = arith::DivUIOp::create(b, loc, row, constant(sizes[i]));
  }
  emitRowOps();
  if (!failed)
    storeOutputs();
}

FailureOr<SmallVector<KernelCall>> KernelEmitter::emit(int64_t &workspace) {
  call.name = name;
  beginFunction(name);
  loadPointers();
  setUpPartials(workspace);
  if (space.isFlat())
    storeOutputs();
  else
    emitRows();
  if (failed)
    return failure();
  endFunction();
  SmallVector<KernelCall> calls{call};
  for (auto [partial, offset] : llvm::zip(partials, partialOffsets))
    if (!partial.direct)
      calls.push_back(emitPartialSum(partial, offset));
  return calls;
}
