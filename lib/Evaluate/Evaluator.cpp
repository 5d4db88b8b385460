// Runs functions, class functions and programs on host tensors.
#include "lib/Evaluate/Evaluator.h"
#include "dialects/ps/Entries.h"
#include "dialects/ps/Refusal.h"

#include "lib/Evaluate/Collectives.h"
#include "lib/Partition/PipelineAxis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::partition;
using namespace parashard::ps;

namespace parashard::evaluate {

Evaluator::Evaluator(ModuleOp module, Layout layout, std::vector<Coordinate> coordinates,
                     bool sharded, uint64_t seed)
    : module(module), layout(std::move(layout)), coordinates(std::move(coordinates)),
      sharded(sharded) {
  context.seed = seed;
  if (sharded)
    pipeline = getPipelineAxis(module);
  if (this->coordinates.size() > 1)
    recordUses();
}

FailureOr<Evaluator> Evaluator::create(ModuleOp module, uint64_t seed) {
  auto level = module->getAttrOfType<LevelAttr>(kLevelMark);
  bool sharded = level && level.getValue() >= Level::Partitioned;
  StringAttr pipeline = sharded ? getPipelineAxis(module) : StringAttr();
  if (Operation *op = pipeline ? findSplitOver(module, pipeline) : nullptr)
    return op->emitOpError() << "has a tensor that is split over the pipeline axis " << pipeline
                             << "; coordinates of this axis run different stages, and cannot "
                                "share a tensor";
  Layout layout(sharded ? getMesh(module) : MeshOp());
  FailureOr<Store> store = Store::create(module, layout, sharded, seed);
  if (failed(store))
    return failure();
  std::vector<Coordinate> coordinates(sharded ? getPipelineSize(module) : 1, {*store, {}});
  return Evaluator(module, std::move(layout), std::move(coordinates), sharded, seed);
}

PerRank Evaluator::replicate(int64_t value) const {
  Tensor tensor(
      RankedTensorType::get({}, IntegerType::get(const_cast<ModuleOp &>(module).getContext(), 64)));
  tensor.setInt(0, value);
  return PerRank(layout.getRankCount(), tensor);
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

std::string Evaluator::getSymbol(std::optional<StringRef> symbol, Value ref, Frame &frame) {
  return symbol ? symbol->str() : frame.refs.lookup(ref);
}

LogicalResult Evaluator::runRead(ReadOp op, Frame &frame) {
  std::string symbol = getSymbol(op.getVariable(), op.getRef(), frame);
  if (!store().contains(symbol))
    return op.emitOpError() << "reads '" << symbol << "', which is not a variable";
  frame.values[op.getResult()] = store().get(symbol);
  return success();
}

void Evaluator::apply(const Effect &effect) {
  bool sets = !effect.combines || (effect.combines == ReductionKind::Sum &&
                                   coordinates[current].accumulated.insert(effect.symbol).second);
  if (sets) {
    store().set(effect.symbol, effect.value);
    return;
  }
  PerRank combined = store().get(effect.symbol);
  for (auto [whole, part] : llvm::zip(combined, effect.value))
    for (int64_t i = 0; i < whole.size(); ++i)
      whole.set(i, combine(*effect.combines, whole.get(i), part.get(i)));
  store().set(effect.symbol, std::move(combined));
}

void Evaluator::addEffect(Frame &frame, Effect effect) {
  if (frame.immediate)
    apply(effect);
  else
    frame.effects.push_back(std::move(effect));
}

LogicalResult Evaluator::runWrite(WriteOp op, Frame &frame) {
  PerRank value = frame.values.lookup(op.getValue());
  std::string symbol = getSymbol(op.getVariable(), op.getRef(), frame);
  if (op.getCondition()) {
    const PerRank &condition = frame.values[op.getCondition()];
    for (auto [rank, ok] : llvm::enumerate(condition))
      if (!ok.getInt(0))
        value[rank] = store().get(symbol)[rank];
  }
  addEffect(frame, {symbol, std::move(value), std::nullopt});
  return success();
}

LogicalResult Evaluator::runAccumulate(AccumulateOp op, Frame &frame) {
  addEffect(frame, {getSymbol(op.getVariable(), op.getRef(), frame),
                    frame.values.lookup(op.getValue()), op.getKind()});
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Fills the unspecified padding of an op's results with values such as NaN. Skips results without
/// `ps.global`: their padding, if any, is defined by the op.
void Evaluator::fillPadding(Operation *op, MutableArrayRef<PerRank> results) const {
  auto globals = op->getAttrOfType<ArrayAttr>(kGlobalMark);
  if (!sharded || !globals)
    return;
  for (auto [i, global] : llvm::enumerate(globals))
    if (auto type = dyn_cast<TypeAttr>(global))
      if (ShardingAttr sharding = getSharding(op->getResult(i)))
        layout.fillPadding(results[i], cast<RankedTensorType>(type.getValue()), sharding);
}

LogicalResult Evaluator::runTensorOp(EvaluateOpInterface op, Frame &frame) {
  SmallVector<PerRank> results(op->getNumResults());
  for (int64_t rank = 0; rank < layout.getRankCount(); ++rank) {
    SmallVector<Tensor> operands;
    for (Value operand : op->getOperands())
      operands.push_back(frame.values[operand][rank]);
    FailureOr<SmallVector<Tensor>> values = op.evaluate(operands, context);
    if (failed(values))
      return op->emitOpError("cannot be evaluated with these operands and attributes");
    for (auto [i, value] : llvm::enumerate(*values)) {
      if (value.getType().getShape() != cast<ShapedType>(op->getResult(i).getType()).getShape())
        return op->emitOpError() << "evaluates to " << value.getType() << " for result " << i
                                 << ", expected " << op->getResult(i).getType();
      results[i].push_back(std::move(value));
    }
  }
  fillPadding(op, results);
  for (auto [result, value] : llvm::zip(op->getResults(), results))
    frame.values[result] = std::move(value);
  return success();
}

LogicalResult Evaluator::runFused(FusedOp op, Frame &frame) {
  Block &body = op.getBody().front();
  for (auto [argument, input] : llvm::zip(body.getArguments(), op.getInputs())) {
    if (isa<RefType>(argument.getType()))
      frame.refs[argument] = frame.refs.lookup(input);
    else
      frame.values[argument] = frame.values.lookup(input);
  }
  if (failed(runBlock(body, frame)))
    return failure();
  for (auto [result, value] : llvm::zip(op.getResults(), body.getTerminator()->getOperands()))
    frame.values[result] = frame.values.lookup(value);
  return success();
}

LogicalResult Evaluator::runClass(rank::RunOp op, Frame &frame) {
  auto function = module.lookupSymbol<func::FuncOp>(op.getCallee());
  Frame inner;
  auto argument = function.getArguments().begin();
  for (Value input : op.getInputs())
    inner.values[*argument++] = frame.values.lookup(input);
  for (FlatSymbolRefAttr variable : op.getVariableSymbols()) {
    Value staged = op.getStaged(variable);
    inner.refs[*argument++] = staged ? frame.refs.lookup(staged) : variable.getValue().str();
  }
  for (int64_t key : op.getKeys().value_or(ArrayRef<int64_t>()))
    inner.values[*argument++] = replicate(key);
  if (argument != function.getArguments().end() && op.getMicroBatch())
    inner.values[*argument++] = frame.values.lookup(op.getMicroBatch());
  if (failed(runBlock(function.getBody().front(), inner)))
    return failure();
  for (const Effect &effect : inner.effects)
    apply(effect);
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [result, value] : llvm::zip(op.getResults(), terminator->getOperands()))
    frame.values[result] = inner.values.lookup(value);
  return success();
}

/// Joins the rendezvous of the started op. The matching wait computes the results.
LogicalResult Evaluator::runStart(rank::StartOp op, Frame &frame) {
  if (failed(checkMembers(op)))
    return failure();
  ArrayRef<int64_t> members = op.getOverPp().value_or(ArrayRef(current));
  return startRendezvous(op, op.getToken(), op.getQueue(), members, frame);
}

/// Copies variables to staging buffers. Stores each copy under a symbol that no variable has, such
/// as "staged:wte.weight".
LogicalResult Evaluator::runFetch(rank::FetchOp op, Frame &frame) {
  for (Value result : op.getResults()) {
    StringRef symbol = op.getVariable(cast<OpResult>(result)).getValue();
    std::string symbolOfStaged = ("staged:" + symbol).str();
    store().set(symbolOfStaged, store().get(symbol));
    frame.refs[result] = symbolOfStaged;
  }
  return success();
}

LogicalResult Evaluator::runOffload(rank::OffloadOp op, Frame &frame) {
  for (Value staged : op.getStaged()) {
    auto fetch = staged.getDefiningOp<rank::FetchOp>();
    store().set(fetch.getVariable(cast<OpResult>(staged)).getValue(),
                store().get(frame.refs.lookup(staged)));
  }
  return success();
}

/// Returns the rows of one micro-batch. `all` contains the rows of all micro-batches along dim 0.
/// If `all` has the shape of `type`, every micro-batch uses the same rows.
static FailureOr<Tensor> takeMicroBatch(Operation *op, StringRef name, const Tensor &all,
                                        RankedTensorType type, int64_t microBatch) {
  if (all.getType().getShape() == type.getShape())
    return all;
  if (all.getRank() != type.getRank() || type.getRank() == 0 ||
      all.getShape().drop_front() != type.getShape().drop_front())
    return op->emitError() << "input '" << name << "' has type " << all.getType()
                           << ", but a micro-batch has type " << type
                           << "; only dim 0 may be larger, with the rows of all micro-batches";
  int64_t first = microBatch * type.getShape()[0], end = first + type.getShape()[0];
  if (all.getShape()[0] < end)
    return op->emitError() << "input '" << name << "' has type " << all.getType()
                           << ", but micro-batch " << microBatch << " reads rows " << first
                           << " to " << end - 1 << "; give at least " << describeCount(end, "row")
                           << " along dim 0, or use fewer micro-batches";
  Tensor rows(type);
  for (int64_t i = 0, offset = microBatch * rows.size(); i < rows.size(); ++i) {
    if (rows.isFloat())
      rows.set(i, all.get(offset + i));
    else
      rows.setInt(i, all.getInt(offset + i));
  }
  return rows;
}

LogicalResult Evaluator::runInput(rank::InputOp op, Frame &frame) {
  auto it = programInputs->find(op.getInput().str());
  if (it == programInputs->end())
    return op.emitOpError() << "input '" << op.getInput() << "' is not given";
  auto type = cast<RankedTensorType>(op.getGlobal().value_or(op.getType()));
  FailureOr<Tensor> rows = takeMicroBatch(op, op.getInput(), it->second, type, op.getMicroBatch());
  if (failed(rows))
    return failure();
  frame.values[op.getResult()] = layout.scatter(*rows, op.getShardingAttr());
  return success();
}

/// Joins two tensors along a dim. Example: the rows of two micro-batches.
static Tensor join(const Tensor &first, const Tensor &second, int64_t dim) {
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] += second.getShape()[dim];
  Tensor joined(RankedTensorType::get(shape, first.getType().getElementType()));
  int64_t outer = 1, at = 0;
  for (int64_t size : first.getShape().take_front(dim))
    outer *= size;
  for (int64_t i = 0; i < outer; ++i)
    for (const Tensor *part : {&first, &second})
      for (int64_t j = 0, size = part->size() / outer; j < size; ++j, ++at) {
        if (joined.isFloat())
          joined.set(at, part->get(i * size + j));
        else
          joined.setInt(at, part->getInt(i * size + j));
      }
  return joined;
}

/// Adds the output of a micro-batch. Appends its rows to those of earlier micro-batches. An output
/// without a batch dim replaces the earlier one. `batchDim`: the `ps.batch_dim` of the output.
static void addOutput(NamedTensors &outputs, const std::string &name, Tensor value,
                      IntegerAttr batchDim) {
  int64_t dim = batchDim ? batchDim.getInt() : 0;
  auto known = outputs.find(name);
  if (known == outputs.end() || dim < 0 || dim >= value.getRank())
    outputs[name] = std::move(value);
  else
    known->second = join(known->second, value, dim);
}

LogicalResult Evaluator::runOutput(rank::OutputOp op, Frame &frame) {
  auto type = cast<RankedTensorType>(op.getGlobal().value_or(op.getValue().getType()));
  addOutput(frame.outputs, op.getOutput().str(),
            layout.gather(frame.values[op.getValue()], type, op.getShardingAttr()),
            op->getAttrOfType<IntegerAttr>(kBatchDimMark));
  return success();
}

/// Checks that an op's operands exist. Results of an asynchronous op exist only after its wait.
/// Also records the tokens that have no wait yet.
LogicalResult Evaluator::checkOperands(Operation &op, Frame &frame) {
  for (Value operand : op.getOperands()) {
    if (!isa<RankedTensorType>(operand.getType()) || frame.values.contains(operand))
      continue;
    InFlightDiagnostic error = op.emitOpError()
                               << "uses a value that does not exist yet on pipeline coordinate "
                               << current;
    error.attachNote(operand.getLoc()) << "defined here";
    return error;
  }
  for (Value result : op.getResults())
    if (isa<rank::TokenType>(result.getType()))
      frame.pending.insert(result);
  if (auto wait = dyn_cast<rank::WaitOp>(op))
    frame.pending.erase(wait.getToken());
  return success();
}

LogicalResult Evaluator::runOp(Operation &op, Frame &frame) {
  if (failed(checkOperands(op, frame)))
    return failure();
  if (auto evaluable = dyn_cast<EvaluateOpInterface>(op))
    return runTensorOp(evaluable, frame);
  if (op.getNumResults() == 1 && frame.values.contains(op.getResult(0)) && isa<AllReduceOp>(op))
    return success(); // reduceOverPipeline has computed the result
  if ((op.getNumOperands() == 1 && op.getNumResults() == 1) || isa<ShardIndexOp>(op)) {
    if (failed(checkMembers(&op)))
      return failure();
    PerRank operand = op.getNumOperands() ? frame.values.lookup(op.getOperand(0)) : PerRank();
    if (auto result = isa<ShardIndexOp>(op) || !operand.empty()
                          ? evaluateCollective(&op, layout, operand)
                          : std::nullopt) {
      frame.values[op.getResult(0)] = std::move(*result);
      return success();
    }
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](ReadOp o) { return runRead(o, frame); })
      .Case([&](WriteOp o) { return runWrite(o, frame); })
      .Case([&](AccumulateOp o) { return runAccumulate(o, frame); })
      .Case([&](FusedOp o) { return runFused(o, frame); })
      .Case([&](rank::RunOp o) { return runClass(o, frame); })
      .Case([&](WaitOp o) {
        // The collective has already computed the result.
        PerRank value = frame.values.lookup(o.getOperand());
        frame.values[o.getResult()] = std::move(value);
        return success();
      })
      .Case([&](rank::StartOp o) { return runStart(o, frame); })
      .Case([&](rank::FetchOp o) { return runFetch(o, frame); })
      .Case([&](rank::OffloadOp o) { return runOffload(o, frame); })
      .Case<rank::StashOp, rank::UnstashOp>([&](auto o) {
        for (auto [operand, result] : llvm::zip_equal(o.getOperands(), o.getResults())) {
          PerRank value = frame.values.lookup(operand);
          frame.values[result] = std::move(value);
        }
        return success();
      })
      .Case([&](rank::InputOp o) { return runInput(o, frame); })
      .Case([&](rank::OutputOp o) { return runOutput(o, frame); })
      .Case([&](rank::SendOp o) { return runSend(o, frame); })
      .Case([&](rank::RecvOp o) { return runRecv(o, frame); })
      .Case<rank::WaitOp, rank::SectionOp, YieldOp, func::ReturnOp>(
          [&](Operation *) { return success(); })
      .Case([&](arith::ConstantOp o) {
        frame.values[o.getResult()] = replicate(cast<IntegerAttr>(o.getValue()).getInt());
        return success();
      })
      .Default([&](Operation *o) { return o->emitOpError("is not supported by the evaluator"); });
}

LogicalResult Evaluator::runBlock(Block &block, Frame &frame) {
  for (Operation &op : block)
    if (failed(runOp(op, frame)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

static InFlightDiagnostic reportMissingEntry(ModuleOp module, StringRef entry) {
  SmallVector<StringRef> entries;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function->hasAttr(kClassMark)) {
      StringRef name = function.getName();
      entries.push_back(function->hasAttr(kStageMark) ? name.split('.').second : name);
    }
  for (auto program : module.getOps<rank::ProgramOp>())
    entries.push_back(program.getEntry());
  if (llvm::is_contained(entries, "update")) // Evaluator::step calls `update`
    entries.push_back("step");
  llvm::sort(entries);
  entries.erase(llvm::unique(entries), entries.end());
  std::string names = llvm::join(entries, ", ");
  return refuseFlag(module, "entry " + entry) << ": unknown entry; the module has " << names;
}

/// Returns the stage functions of an entry (from level 3 on), or the single function of the entry
/// (before level 3).
SmallVector<func::FuncOp> Evaluator::findStages(StringRef entry) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (sharded && function->hasAttr(kStageMark) && function.getName().split('.').second == entry)
      functions.push_back(function);
  if (functions.empty())
    if (auto function = module.lookupSymbol<func::FuncOp>(entry))
      functions.push_back(function);
  return functions;
}

static StringRef getName(func::FuncOp function, unsigned argument) {
  auto name = function.getArgAttrOfType<StringAttr>(argument, kNameMark);
  if (!name)
    name = function.getArgAttrOfType<StringAttr>(argument, kCotangentMark);
  return name ? name.getValue() : "";
}

/// Returns the global type of an argument or result: its `ps.global` (from level 3 on), else its
/// own type.
static RankedTensorType getWholeType(DictionaryAttr marks, Type type) {
  auto global = marks ? marks.getAs<TypeAttr>(kGlobalMark) : TypeAttr();
  return cast<RankedTensorType>(global ? global.getValue() : type);
}

FailureOr<PerRank> Evaluator::getArgument(func::FuncOp function, unsigned i,
                                          const NamedTensors &inputs, int64_t microBatch) {
  if (isa<IntegerType>(function.getArgument(i).getType()))
    return replicate(microBatch);
  std::string name = getName(function, i).str();
  auto it = inputs.find(name);
  if (it == inputs.end())
    return function.emitError() << "input '" << name
                                << "' is not given; add it to the file of --inputs";
  RankedTensorType type =
      getWholeType(function.getArgAttrDict(i), function.getArgument(i).getType());
  FailureOr<Tensor> rows = takeMicroBatch(function, name, it->second, type, microBatch);
  if (failed(rows))
    return failure();
  auto sharding = function.getArgAttrOfType<ShardingAttr>(i, kShardingMark);
  return layout.scatter(*rows, sharded ? sharding : ShardingAttr());
}

FailureOr<Evaluator::Cursor> Evaluator::makeCursor(func::FuncOp function,
                                                   const NamedTensors &inputs, int64_t microBatch) {
  Block &block = function.getBody().front();
  Cursor cursor{getCoordinate(function), &block, block.begin(), Frame(), function};
  cursor.frame.immediate = function->hasAttr(kStageMark);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (function.getArgAttr(i, kValueMark))
      continue; // passed by another stage
    FailureOr<PerRank> value = getArgument(function, i, inputs, microBatch);
    if (failed(value))
      return failure();
    cursor.frame.values[function.getArgument(i)] = std::move(*value);
  }
  return cursor;
}

FailureOr<NamedTensors> Evaluator::call(StringRef entry, const NamedTensors &inputs,
                                        int64_t microBatch) {
  NamedTensors outputs;
  if (failed(call(entry, inputs, microBatch, outputs)))
    return failure();
  return outputs;
}

LogicalResult Evaluator::call(StringRef entry, const NamedTensors &inputs, int64_t microBatch,
                              NamedTensors &outputs) {
  if (SmallVector<rank::ProgramOp> programs = findPrograms(entry); !programs.empty())
    return callPrograms(programs, inputs, 1, outputs);
  SmallVector<func::FuncOp> functions = findStages(entry);
  if (functions.empty())
    return reportMissingEntry(module, entry);
  context.microBatch = microBatch;
  context.training = entry != "evaluate" && !isInferenceEntry(functions.front());
  crossing.clear();
  exchange = Exchange();
  std::vector<Cursor> cursors;
  for (func::FuncOp function : functions) {
    if (int64_t coordinate = getCoordinate(function);
        coordinate < 0 || coordinate >= int64_t(coordinates.size()))
      return function.emitOpError()
             << "belongs to pipeline coordinate " << coordinate << ", but there are only "
             << coordinates.size() << " coordinates";
    FailureOr<Cursor> cursor = makeCursor(function, inputs, microBatch);
    if (failed(cursor))
      return failure();
    cursors.push_back(std::move(*cursor));
  }
  if (failed(runTogether(cursors)))
    return failure();
  for (Cursor &cursor : cursors) {
    current = cursor.coordinate;
    for (const Effect &effect : cursor.frame.effects)
      apply(effect);
    func::FuncOp function = cursor.function;
    for (auto [i, value] : llvm::enumerate(cursor.block->getTerminator()->getOperands())) {
      if (function.getResultAttr(i, kValueMark))
        continue;
      auto name = function.getResultAttrOfType<StringAttr>(i, kNameMark);
      auto sharding = function.getResultAttrOfType<ShardingAttr>(i, kShardingMark);
      addOutput(outputs, name ? name.str() : "result" + std::to_string(i),
                layout.gather(cursor.frame.values[value],
                              getWholeType(function.getResultAttrDict(i), value.getType()),
                              sharded ? sharding : ShardingAttr()),
                function.getResultAttrOfType<IntegerAttr>(i, kBatchDimMark));
    }
  }
  return success();
}

SmallVector<rank::ProgramOp> Evaluator::findPrograms(StringRef entry) {
  SmallVector<rank::ProgramOp> programs;
  for (auto program : module.getOps<rank::ProgramOp>())
    if (program.getEntry() == entry)
      programs.push_back(program);
  return programs;
}

LogicalResult Evaluator::callPrograms(ArrayRef<rank::ProgramOp> programs,
                                      const NamedTensors &inputs, int64_t count,
                                      NamedTensors &outputs) {
  for (Coordinate &coordinate : coordinates)
    coordinate.accumulated.clear();
  microBatches = count;
  programInputs = &inputs;
  exchange = Exchange();
  std::vector<Cursor> cursors;
  for (rank::ProgramOp program : programs) {
    if (llvm::any_of(cursors,
                     [&](Cursor &other) { return other.coordinate == int64_t(program.getPp()); }))
      return program.emitOpError() << "is a second program of entry \"" << program.getEntry()
                                   << "\" for pipeline coordinate " << program.getPp();
    context.training = program.getEntry() != "evaluate" && !isInferenceEntry(program);
    Block &block = program.getBody().front();
    cursors.push_back({int64_t(program.getPp()), &block, block.begin(), Frame(), {}});
    cursors.back().frame.immediate = true;
  }
  if (failed(runTogether(cursors)))
    return failure();
  for (Cursor &cursor : cursors)
    outputs.insert(cursor.frame.outputs.begin(), cursor.frame.outputs.end());
  return success();
}

FailureOr<NamedTensors> Evaluator::step(const NamedTensors &inputs, int64_t count) {
  NamedTensors outputs;
  if (SmallVector<rank::ProgramOp> programs = findPrograms("step"); !programs.empty()) {
    if (failed(callPrograms(programs, inputs, count, outputs)))
      return failure();
    ++context.step;
    return outputs;
  }
  if (findStages("update").empty())
    return reportMissingEntry(module, "step"), failure();
  for (Coordinate &coordinate : coordinates)
    coordinate.accumulated.clear();
  microBatches = count;
  for (int64_t m = 0; !findStages("count").empty() && m < count; ++m)
    if (failed(call("count", inputs, m)))
      return failure();
  for (int64_t m = 0; m < count; ++m)
    if (failed(call("micro_batch", inputs, m, outputs)))
      return failure();
  if (failed(call("update", {}, 0)))
    return failure();
  ++context.step;
  return outputs;
}

} // namespace parashard::evaluate
