// Pipeline coordinates in turns: what each waits for, and what they hold together.
#include "lib/Evaluate/Collectives.h"
#include "lib/Evaluate/Evaluator.h"
#include "lib/Partition/SplitUpdate.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard {

/// Stage functions of segments are by stage; the others by coordinate.
int64_t Evaluator::getCoordinate(func::FuncOp function) {
  auto stage = function->getAttrOfType<IntegerAttr>(rank::kStageMark);
  if (!stage || coordinates.size() == 1)
    return 0;
  StringRef entry = function.getName().split('.').second;
  bool isOfCoordinate = entry == "update" || entry == "count";
  return isOfCoordinate ? stage.getInt() : getStages(module).getCoordinate(stage.getInt());
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

bool Evaluator::finishReceive(rank::RecvOp op, Frame &frame) {
  const Started &started = frame.started[op.getToken()];
  const PerRank *value = exchange.find(started.queue, started.place);
  if (value)
    frame.values[op.getResult()] = *value;
  return value;
}

bool Evaluator::finishStart(rank::StartOp op, Frame &frame) {
  std::optional<ArrayRef<int64_t>> members = op.getOverPp();
  if (!members)
    return true;
  auto reduced = exchange.getReduced(*members, frame.started[op.getToken()].place,
                                     op.getKind().value_or(ReductionKind::Sum));
  if (!reduced)
    return false;
  for (auto [result, value] : llvm::zip(op.getResults(), *reduced))
    frame.values[result] = std::move(value);
  return true;
}

/// One that stands in a stage function (level 3).
bool Evaluator::reduceOverPipeline(AllReduceOp op, Cursor &cursor) {
  StringAttr pipeline = getPipelineAxis(module);
  if (!pipeline || !llvm::is_contained(op.getAxes(), pipeline))
    return true;
  SmallVector<int64_t> members = llvm::to_vector(llvm::seq<int64_t>(0, coordinates.size()));
  if (auto given = op->getAttrOfType<DenseI64ArrayAttr>(rank::kCoordinatesMark))
    members = SmallVector<int64_t>(given.asArrayRef());
  auto [started, isNew] = cursor.frame.started.try_emplace(op.getResult());
  if (isNew)
    started->second.place = exchange.enter(members, here, {cursor.frame.values[op.getOperand()]});
  auto reduced = exchange.getReduced(members, started->second.place, op.getKind());
  if (reduced)
    cursor.frame.values[op.getResult()] = std::move(reduced->front());
  return reduced.has_value();
}

bool Evaluator::isReady(Operation &op, Cursor &cursor) {
  Frame &frame = cursor.frame;
  for (Value operand : op.getOperands()) {
    auto argument = dyn_cast<BlockArgument>(operand);
    if (!argument || frame.values.contains(argument) || !cursor.function)
      continue;
    auto number =
        cursor.function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), rank::kValueMark);
    auto value = number ? crossing.find(number.getInt()) : crossing.end();
    if (value == crossing.end())
      return !number;
    frame.values[argument] = value->second;
  }
  return llvm::TypeSwitch<Operation *, bool>(&op)
      .Case([&](rank::WaitOp wait) {
        Operation *started = wait.getToken().getDefiningOp();
        if (auto receive = dyn_cast<rank::RecvOp>(started))
          return finishReceive(receive, frame);
        if (auto start = dyn_cast<rank::StartOp>(started))
          return finishStart(start, frame);
        return true;
      })
      .Case([&](AllReduceOp reduce) { return reduceOverPipeline(reduce, cursor); })
      .Default([](Operation *) { return true; });
}

/// Other stages may need what a stage function returns as soon as it is there.
void Evaluator::publish(Operation &op, Cursor &cursor) {
  if (!cursor.function || coordinates.size() == 1)
    return;
  Operation *end = cursor.block->getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands()))
    if (auto number = cursor.function.getResultAttrOfType<IntegerAttr>(i, rank::kValueMark);
        number && value.getDefiningOp() == &op)
      crossing[number.getInt()] = cursor.frame.values[value];
}

FailureOr<bool> Evaluator::advance(Cursor &cursor) {
  here = cursor.coordinate;
  bool moved = false;
  for (; cursor.next != cursor.block->end(); ++cursor.next, moved = true) {
    if (!isReady(*cursor.next, cursor))
      return moved;
    if (failed(runOp(*cursor.next, cursor.frame)))
      return failure();
    publish(*cursor.next, cursor);
  }
  return moved;
}

LogicalResult Evaluator::runTogether(MutableArrayRef<Cursor> cursors) {
  for (bool moved = true; moved;) {
    moved = false;
    for (Cursor &cursor : cursors) {
      FailureOr<bool> advanced = advance(cursor);
      if (failed(advanced))
        return failure();
      moved |= *advanced;
    }
  }
  for (Cursor &cursor : cursors)
    if (cursor.next != cursor.block->end())
      return cursor.next->emitError() << "pipeline coordinate " << cursor.coordinate
                                      << " waits here for ever: what it waits for is never sent";
  return success();
}

//===----------------------------------------------------------------------===//
// What coordinates hold
//===----------------------------------------------------------------------===//

/// Whether a class function adds to what a reference names, and whether it writes it.
static std::pair<bool, bool> findEffects(Value ref) {
  bool adds = false, writes = false;
  for (OpOperand &use : ref.getUses()) {
    adds |= isa<AccumulateOp>(use.getOwner());
    writes |= isa<WriteOp>(use.getOwner());
    if (auto fused = dyn_cast<FusedOp>(use.getOwner())) {
      auto [innerAdds, innerWrites] =
          findEffects(fused.getBody().front().getArgument(use.getOperandNumber()));
      adds |= innerAdds;
      writes |= innerWrites;
    }
  }
  return {adds, writes};
}

void Evaluator::noteUses() {
  auto note = [&](Operation &op, int64_t coordinate) {
    if (auto read = dyn_cast<ReadOp>(op))
      uses[read.getVariableAttr().getValue()].reads.insert(coordinate);
    if (auto write = dyn_cast<WriteOp>(op))
      uses[write.getVariableAttr().getValue()].writes.insert(coordinate);
    auto run = dyn_cast<rank::RunOp>(op);
    if (!run)
      return;
    auto callee = module.lookupSymbol<func::FuncOp>(run.getCallee());
    auto refs = llvm::make_filter_range(
        callee.getArguments(), [](Value argument) { return isa<RefType>(argument.getType()); });
    for (auto [symbol, ref] : llvm::zip(run.getVariableSymbols(), refs)) {
      Uses &of = uses[symbol.getValue()];
      of.reads.insert(coordinate);
      auto [adds, writes] = findEffects(ref);
      // What a step counts, every coordinate does; what segments add, stages do.
      if (adds && run.getSegment())
        of.adds.insert(coordinate);
      else if (adds || writes)
        of.writes.insert(coordinate);
    }
  };
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(rank::kStageMark))
      for (Operation &op : function.getBody().front())
        note(op, getCoordinate(function));
  for (auto program : module.getOps<rank::ProgramOp>())
    for (Operation &op : program.getBody().front())
      note(op, program.getPp());
}

FailureOr<Tensor> Evaluator::getWhole(VariableOp variable) {
  const Uses &of = uses[variable.getSymName()];
  auto take = [&](int64_t coordinate) { return coordinates[coordinate].store.getWhole(variable); };
  if (!of.adds.empty()) {
    PerRank terms;
    for (int64_t coordinate : of.adds)
      terms.push_back(take(coordinate));
    return reduceGroup(terms, llvm::to_vector(llvm::seq<int64_t>(0, terms.size())),
                       ReductionKind::Sum);
  }
  const std::set<int64_t> &holders = of.writes.empty() ? of.reads : of.writes;
  Tensor first = take(holders.empty() ? 0 : *holders.begin());
  for (int64_t coordinate : holders)
    if (take(coordinate).toBytes() != first.toBytes())
      return variable.emitError() << "'" << variable.getSymName()
                                  << "' has other bits on pipeline coordinate " << coordinate
                                  << " than on " << *holders.begin();
  return first;
}

void Evaluator::setWhole(VariableOp variable, const Tensor &value) {
  for (Coordinate &coordinate : coordinates)
    coordinate.store.setWhole(variable, value);
}

FailureOr<NamedTensors> Evaluator::getAll() {
  NamedTensors all;
  for (auto variable : module.getOps<VariableOp>()) {
    FailureOr<Tensor> value = getWhole(variable);
    if (failed(value))
      return failure();
    auto addsTo = variable->getAttrOfType<FlatSymbolRefAttr>(kAddsToMark);
    std::string symbol = (addsTo ? addsTo.getValue() : variable.getSymName()).str();
    auto [known, isNew] = all.try_emplace(symbol, *value);
    if (!isNew)
      known->second = reduceGroup({known->second, *value}, {0, 1}, ReductionKind::Sum);
  }
  return all;
}

} // namespace parashard
