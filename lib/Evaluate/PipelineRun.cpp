// Runs pipeline coordinates in turns, and gathers the variables of all coordinates.
#include "lib/Evaluate/Collectives.h"
#include "lib/Evaluate/Evaluator.h"
#include "lib/Partition/PipelineAxis.h"
#include "lib/Partition/SplitUpdate.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::partition;
using namespace parashard::ps;

namespace parashard::evaluate {

/// Returns the pipeline coordinate of a function. The number in `ps.stage` is a coordinate for
/// `update` and `count`, and a stage for other entries.
int64_t Evaluator::getCoordinate(func::FuncOp function) {
  auto stage = function->getAttrOfType<IntegerAttr>(kStageMark);
  if (!stage || coordinates.size() == 1)
    return 0;
  StringRef entry = function.getName().split('.').second;
  bool isOfCoordinate = entry == "update" || entry == "count";
  return isOfCoordinate ? stage.getInt() : getStages(module).getCoordinate(stage.getInt());
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

LogicalResult Evaluator::startRendezvous(Operation *op, Value token, StringRef queue,
                                         ArrayRef<int64_t> members, Frame &frame) {
  std::vector<PerRank> values;
  for (Value operand : op->getOperands())
    values.push_back(frame.values.lookup(operand));
  FailureOr<Exchange::Number> rendezvous =
      exchange.start(op, queue, members, current, std::move(values));
  if (failed(rendezvous))
    return failure();
  frame.started[token] = *rendezvous;
  return success();
}

static SmallVector<int64_t> makePair(int64_t current, int64_t peer) {
  return {std::min(current, peer), std::max(current, peer)};
}

LogicalResult Evaluator::runSend(rank::SendOp op, Frame &frame) {
  return startRendezvous(op, op.getToken(), op.getQueue(), makePair(current, op.getPp()), frame);
}

LogicalResult Evaluator::runRecv(rank::RecvOp op, Frame &frame) {
  return startRendezvous(op, op.getToken(), op.getQueue(), makePair(current, op.getPp()), frame);
}

void Evaluator::finishStart(rank::StartOp op, Exchange::Number rendezvous, Frame &frame) {
  ReductionKind kind = op.getKind().value_or(ReductionKind::Sum);
  if (op.getOverPp()) {
    for (auto [result, value] : llvm::zip(op.getResults(), exchange.reduce(rendezvous, kind)))
      frame.values[result] = std::move(value);
    return;
  }
  auto dims = op.getDims().value_or(ArrayRef<int64_t>());
  for (auto [i, value] : llvm::enumerate(exchange.getContribution(rendezvous, current))) {
    PerRank result = op.getCollective() == "all_reduce"
                         ? allReduce(layout, value, kind, *op.getAxes())
                     : op.getCollective() == "reduce_scatter"
                         ? reduceScatter(layout, value, kind, *op.getAxes(), dims[i])
                         : allGather(layout, value, *op.getAxes(), dims[i]);
    frame.values[op.getResults()[i]] = std::move(result);
  }
}

/// Returns true if the awaited op is complete. In this case, also defines the results of the op.
FailureOr<bool> Evaluator::finishWait(rank::WaitOp op, Frame &frame) {
  auto started = frame.started.find(op.getToken());
  if (started == frame.started.end()) // a copy to or from host memory
    return true;
  if (failed(exchange.settle()))
    return failure();
  if (!exchange.isComplete(started->second))
    return false;
  Operation *by = op.getToken().getDefiningOp();
  if (auto receive = dyn_cast<rank::RecvOp>(by))
    frame.values[receive.getResult()] =
        exchange.getContribution(started->second, receive.getPp()).front();
  else if (auto start = dyn_cast<rank::StartOp>(by))
    finishStart(start, started->second, frame);
  return true;
}

LogicalResult Evaluator::checkMembers(Operation *op) {
  if (!pipeline || !usesAxis(op, pipeline))
    return success();
  return op->emitOpError() << "over " << op->getAttr("axes")
                           << " is started only by pipeline coordinate " << current
                           << ": ranks on the other coordinates of axis " << pipeline
                           << " run other programs and never join";
}

/// Runs an all-reduce over the pipeline axis inside a stage function (level 3). Returns false until
/// the all-reduce is complete. Returns true for an all-reduce over other axes.
FailureOr<bool> Evaluator::reduceOverPipeline(AllReduceOp op, Cursor &cursor) {
  if (!pipeline || !isReductionOfCoordinates(op, pipeline))
    return true;
  Frame &frame = cursor.frame;
  if (!frame.started.contains(op.getResult()) &&
      failed(startRendezvous(op, op.getResult(), "", getReducingCoordinates(op), frame)))
    return failure();
  if (failed(exchange.settle()))
    return failure();
  Exchange::Number rendezvous = frame.started[op.getResult()];
  if (!exchange.isComplete(rendezvous))
    return false;
  frame.values[op.getResult()] = std::move(exchange.reduce(rendezvous, op.getKind()).front());
  return true;
}

/// If `value` is an argument that another stage passes to `function`, returns the number of the
/// passed value. Returns null for other values.
static IntegerAttr getCrossing(Value value, func::FuncOp function) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && function
             ? function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kValueMark)
             : IntegerAttr();
}

FailureOr<bool> Evaluator::isReady(Operation &op, Cursor &cursor) {
  for (Value operand : op.getOperands()) {
    IntegerAttr number = getCrossing(operand, cursor.function);
    if (!number || cursor.frame.values.contains(operand))
      continue;
    auto value = crossing.find(number.getInt());
    if (value == crossing.end())
      return false;
    cursor.frame.values[operand] = value->second;
  }
  if (auto wait = dyn_cast<rank::WaitOp>(op))
    return finishWait(wait, cursor.frame);
  if (auto reduce = dyn_cast<AllReduceOp>(op))
    return reduceOverPipeline(reduce, cursor);
  return true;
}

/// Makes the results of `op` available to the stages to which they are passed.
void Evaluator::publish(Operation &op, Cursor &cursor) {
  if (!cursor.function || coordinates.size() == 1)
    return;
  Operation *end = cursor.block->getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands()))
    if (auto number = cursor.function.getResultAttrOfType<IntegerAttr>(i, kValueMark);
        number && value.getDefiningOp() == &op)
      crossing[number.getInt()] = cursor.frame.values[value];
}

FailureOr<bool> Evaluator::advance(Cursor &cursor) {
  current = cursor.coordinate;
  bool moved = false;
  for (; cursor.next != cursor.block->end(); ++cursor.next, moved = true) {
    FailureOr<bool> ready = isReady(*cursor.next, cursor);
    if (failed(ready))
      return failure();
    if (!*ready)
      return moved;
    if (failed(runOp(*cursor.next, cursor.frame)))
      return failure();
    publish(*cursor.next, cursor);
  }
  return moved;
}

/// Reports the op or the value that a coordinate waits for forever.
LogicalResult Evaluator::reportWaiting(Cursor &cursor) {
  Operation *op = &*cursor.next, *awaited = op;
  auto wait = dyn_cast<rank::WaitOp>(op);
  if (wait)
    awaited = wait.getToken().getDefiningOp();
  InFlightDiagnostic error = op->emitError() << "pipeline coordinate " << cursor.coordinate
                                             << " waits here forever for ";
  auto started = cursor.frame.started.find(wait                  ? wait.getToken()
                                           : op->getNumResults() ? op->getResult(0)
                                                                 : Value());
  if (started != cursor.frame.started.end()) {
    error << "'" << awaited->getName() << "': " << exchange.describeMissing(started->second);
    if (wait)
      error.attachNote(awaited->getLoc()) << "started here";
    return error;
  }
  for (Value operand : op->getOperands())
    if (IntegerAttr number = getCrossing(operand, cursor.function);
        number && !cursor.frame.values.contains(operand))
      return error << "value " << number.getInt() << ", which no other stage produces";
  return error;
}

/// Checks that every started op has a wait.
LogicalResult Evaluator::checkEnd(Cursor &cursor) {
  for (Operation &op : *cursor.block)
    for (Value result : op.getResults())
      if (cursor.frame.pending.contains(result))
        return op.emitOpError() << "is started by pipeline coordinate " << cursor.coordinate
                                << " but has no wait";
  return success();
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
      return reportWaiting(cursor);
  for (Cursor &cursor : cursors)
    if (failed(checkEnd(cursor)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Variables of coordinates
//===----------------------------------------------------------------------===//

/// Returns whether a class function accumulates into the variable of a ref, and whether it writes
/// the variable.
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

void Evaluator::recordUses() {
  auto record = [&](Operation &op, int64_t coordinate) {
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
      Uses &use = uses[symbol.getValue()];
      use.reads.insert(coordinate);
      auto [adds, writes] = findEffects(ref);
      // Accumulations of segments run only on the coordinates of their stages. All others run on
      // every coordinate, so they count as writes.
      if (adds && run.getSegment())
        use.adds.insert(coordinate);
      else if (adds || writes)
        use.writes.insert(coordinate);
    }
  };
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kStageMark))
      for (Operation &op : function.getBody().front())
        record(op, getCoordinate(function));
  for (auto program : module.getOps<rank::ProgramOp>())
    for (Operation &op : program.getBody().front())
      record(op, program.getPp());
}

FailureOr<Tensor> Evaluator::getWhole(VariableOp variable) {
  const Uses &use = uses[variable.getSymName()];
  auto take = [&](int64_t coordinate) { return coordinates[coordinate].store.getWhole(variable); };
  if (!use.adds.empty()) {
    PerRank terms;
    for (int64_t coordinate : use.adds)
      terms.push_back(take(coordinate));
    return reduceGroup(terms, llvm::to_vector(llvm::seq<int64_t>(0, terms.size())),
                       ReductionKind::Sum);
  }
  const std::set<int64_t> &holders = use.writes.empty() ? use.reads : use.writes;
  Tensor first = take(holders.empty() ? 0 : *holders.begin());
  for (int64_t coordinate : holders)
    if (take(coordinate).toBytes() != first.toBytes())
      return variable.emitError() << "'" << variable.getSymName()
                                  << "' differs between pipeline coordinates " << *holders.begin()
                                  << " and " << coordinate;
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

} // namespace parashard::evaluate
