// Builds class functions and stage functions.
#include "lib/Partition/Outline.h"
#include "dialects/ps/Entries.h"
#include "lib/IR/Collectives.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::partition {

//===----------------------------------------------------------------------===//
// Class functions
//===----------------------------------------------------------------------===//

std::string Outliner::chooseName(const Run &run) {
  std::string suffix = "." + stringifyPhase(run.phase).str();
  auto known = run.segment ? segmentNames.find(*run.segment) : segmentNames.end();
  if (known != segmentNames.end() && !symbols.lookup(known->second + suffix))
    return known->second;
  std::string name = run.name;
  while (symbols.lookup(name + suffix))
    name = run.name + "." + std::to_string(++taken[run.name + suffix]);
  return name;
}

static FunctionType getClassType(Builder &b, const Run &run) {
  SmallVector<Type> inputs, results;
  for (Value input : run.inputs)
    inputs.push_back(input.getType());
  DenseMap<Attribute, Type> refs;
  for (Operation *op : run.ops) {
    if (auto read = dyn_cast<ReadOp>(op))
      refs[read.getVariableAttr()] = read.getType();
    else if (auto write = dyn_cast<WriteOp>(op))
      refs[write.getVariableAttr()] = write.getValue().getType();
    else if (auto accumulate = dyn_cast<AccumulateOp>(op))
      refs[accumulate.getVariableAttr()] = accumulate.getValue().getType();
  }
  for (Attribute variable : run.variables)
    inputs.push_back(RefType::get(b.getContext(), cast<RankedTensorType>(refs[variable])));
  if (!run.keys.empty())
    inputs.append(run.keys.size() + 1, b.getI64Type());
  for (Value result : run.results)
    results.push_back(result.getType());
  return b.getFunctionType(inputs, results);
}

namespace {
/// Fills the body of one class function.
class ClassBody {
public:
  ClassBody(OpBuilder &b, func::FuncOp function, const Run &run) : b(b), run(run) {
    Block *block = function.addEntryBlock();
    b.setInsertionPointToEnd(block);
    auto args = block->getArguments();
    for (Value input : run.inputs)
      values.map(input, takeFront(args));
    for (Attribute variable : run.variables)
      refs[variable] = takeFront(args);
    for (int64_t key : run.keys)
      keys[key] = takeFront(args);
    if (!run.keys.empty())
      microBatch = takeFront(args);
  }

  void fill(Location loc) {
    for (Operation *op : run.ops)
      build(op);
    for (auto &[variable, total] : totals)
      keep(refs[variable], total);
    SmallVector<Value> results;
    for (Value result : run.results)
      results.push_back(values.lookup(result));
    func::ReturnOp::create(b, loc, results);
  }

private:
  static Value takeFront(MutableArrayRef<BlockArgument> &args) {
    Value first = args.front();
    args = args.drop_front();
    return first;
  }

  void build(Operation *op) {
    Operation *built;
    if (auto read = dyn_cast<ReadOp>(op)) {
      built = ReadOp::create(b, op->getLoc(), read.getType(), FlatSymbolRefAttr(),
                             refs[read.getVariableAttr()]);
      values.map(read.getResult(), built->getResult(0));
    } else if (auto write = dyn_cast<WriteOp>(op)) {
      Value condition =
          write.getCondition() ? values.lookup(write.getCondition()) : write.getCondition();
      built = WriteOp::create(b, op->getLoc(), FlatSymbolRefAttr(), refs[write.getVariableAttr()],
                              values.lookup(write.getValue()), condition);
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      return addToTotal(accumulate);
    } else {
      built = b.clone(*op, values);
      if (auto key = getRandomKey(op))
        cast<RandomOpInterface>(built).setRandomSource(keys[*key], microBatch);
      built->removeAttr(kKeyMark);
      built->removeAttr(kSegmentMark);
      built->removeAttr(kOriginMark);
    }
    mark(built);
  }

  /// The total that a run accumulates into a variable: a sum, maximum or minimum.
  struct Total {
    Value value;
    ReductionKind kind;
  };

  Value combine(Location loc, ReductionKind kind, Value x, Value y) {
    Operation *built = kind == ReductionKind::Sum   ? AddOp::create(b, loc, x, y)
                       : kind == ReductionKind::Max ? MaxOp::create(b, loc, x, y)
                                                    : MinOp::create(b, loc, x, y).getOperation();
    mark(built);
    return built->getResult(0);
  }

  void addToTotal(AccumulateOp accumulate) {
    Value value = values.lookup(accumulate.getValue());
    auto [known, isNew] =
        totals.insert({accumulate.getVariableAttr(), Total{value, accumulate.getKind()}});
    if (!isNew)
      known->second.value =
          combine(accumulate.getLoc(), accumulate.getKind(), known->second.value, value);
  }

  /// Accumulates a total into its variable at the end of the run. For a sum, `ps.accumulate` sets
  /// the variable in the first run of a step, and adds to it in later runs. A maximum or minimum is
  /// always combined with the old value, because `@update` resets the variable after each step.
  void keep(Value ref, const Total &total) {
    Location loc = total.value.getLoc();
    if (total.kind == ReductionKind::Sum)
      return mark(AccumulateOp::create(b, loc, FlatSymbolRefAttr(), ref, total.value));
    auto before = ReadOp::create(b, loc, total.value.getType(), FlatSymbolRefAttr(), ref);
    mark(before);
    Value now = combine(loc, total.kind, before, total.value);
    mark(WriteOp::create(b, loc, FlatSymbolRefAttr(), ref, now, Value()));
  }

  void mark(Operation *built) {
    built->setAttr(kPhaseMark, PhaseAttr::get(b.getContext(), run.phase));
  }

  OpBuilder &b;
  const Run &run;
  llvm::MapVector<Attribute, Total> totals; ///< by variable
  IRMapping values;
  DenseMap<Attribute, Value> refs;
  DenseMap<int64_t, Value> keys;
  Value microBatch;
};
} // namespace

func::FuncOp Outliner::buildClass(const Run &run) {
  std::string base = chooseName(run);
  std::string name = base + "." + stringifyPhase(run.phase).str();
  Location loc = run.ops.front()->getLoc();
  OpBuilder::InsertionGuard guard(builder);
  auto function = func::FuncOp::create(builder, loc, name, getClassType(builder, run));
  function->setAttr(kClassMark, builder.getStringAttr(base));
  function->setAttr(kPhaseMark, PhaseAttr::get(builder.getContext(), run.phase));
  function->setAttr(kSavedMark, builder.getI64IntegerAttr(run.saved));
  symbols.insert(function);
  ClassBody(builder, function, run).fill(loc);
  return function;
}

func::FuncOp Outliner::getClass(const Run &run) {
  func::FuncOp &known = classes[getSignature(run)];
  if (!known)
    known = buildClass(run);
  if (run.segment)
    segmentNames.try_emplace(*run.segment, known->getAttrOfType<StringAttr>(kClassMark).str());
  return known;
}

//===----------------------------------------------------------------------===//
// Stage functions
//===----------------------------------------------------------------------===//

/// Returns the queues of the collectives in a class function, in order; null if there are none.
static ArrayAttr getQueues(OpBuilder &b, func::FuncOp function) {
  SmallVector<Attribute> queues;
  for (Operation &op : function.getBody().front())
    if (isCollective(&op))
      queues.push_back(
          b.getStringAttr(rank::getQueueName(op.getAttrOfType<ArrayAttr>("axes").getValue())));
  return queues.empty() ? ArrayAttr() : b.getArrayAttr(queues);
}

rank::RunOp Outliner::buildRun(Location loc, const Run &run, func::FuncOp callee, IRMapping &values,
                               Value microBatch) {
  SmallVector<Value> inputs;
  for (Value input : run.inputs)
    inputs.push_back(values.lookup(input));
  SmallVector<Attribute> variables(run.variables.begin(), run.variables.end());
  auto op = rank::RunOp::create(
      builder, loc, callee.getResultTypes(), FlatSymbolRefAttr::get(callee.getSymNameAttr()),
      run.segment ? builder.getI64IntegerAttr(*run.segment) : IntegerAttr(),
      run.keys.empty() ? Value() : microBatch, inputs, /*staged=*/ValueRange(),
      variables.empty() ? ArrayAttr() : builder.getArrayAttr(variables),
      run.keys.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(run.keys),
      getQueues(builder, callee));
  op->setAttr(kPhaseMark, PhaseAttr::get(builder.getContext(), run.phase));
  values.map(run.results, op.getResults());
  return op;
}

/// Builds an op between runs, after the reads and movement ops that compute its operands.
static void buildBetween(OpBuilder &b, Operation *op, IRMapping &values) {
  for (Value operand : op->getOperands())
    if (!values.contains(operand))
      buildBetween(b, operand.getDefiningOp(), values);
  Operation *built = b.clone(*op, values);
  built->removeAttr(kSegmentMark);
  built->removeAttr(kOriginMark);
}

func::FuncOp Outliner::createStage(func::FuncOp function, StringRef entry,
                                   const StageContent &content) {
  SmallVector<Type> inputs, results;
  for (unsigned i : content.arguments)
    inputs.push_back(function.getArgument(i).getType());
  for (auto &[value, number] : content.received)
    inputs.push_back(value.getType());
  if (entry == "micro_batch")
    inputs.push_back(builder.getI64Type());
  for (unsigned i : content.results)
    results.push_back(function.getResultTypes()[i]);
  for (auto &[value, number] : content.sent)
    results.push_back(value.getType());
  auto stage = func::FuncOp::create(builder, function.getLoc(),
                                    ("stage" + Twine(content.stage) + "." + entry).str(),
                                    builder.getFunctionType(inputs, results));
  for (auto [index, i] : llvm::enumerate(content.arguments))
    stage.setArgAttrs(index, function.getArgAttrDict(i));
  for (auto [index, received] : llvm::enumerate(content.received))
    stage.setArgAttr(content.arguments.size() + index, kValueMark,
                     builder.getI64IntegerAttr(received.second));
  for (auto [index, i] : llvm::enumerate(content.results))
    stage.setResultAttrs(index, function.getResultAttrDict(i));
  for (auto [index, sent] : llvm::enumerate(content.sent))
    stage.setResultAttr(content.results.size() + index, kValueMark,
                        builder.getI64IntegerAttr(sent.second));
  stage->setAttr(kStageMark, builder.getI64IntegerAttr(content.stage));
  if (isInferenceEntry(function))
    stage->setAttr(kEntryMark, builder.getUnitAttr());
  return stage;
}

func::FuncOp Outliner::buildStage(func::FuncOp function, StringRef entry,
                                  const std::vector<Run> &runs, ArrayRef<func::FuncOp> callees,
                                  const StageContent &content) {
  OpBuilder::InsertionGuard guard(builder);
  func::FuncOp stage = createStage(function, entry, content);
  IRMapping values;
  Block *block = stage.addEntryBlock();
  for (auto [index, i] : llvm::enumerate(content.arguments))
    values.map(function.getArgument(i), block->getArgument(index));
  for (auto [index, received] : llvm::enumerate(content.received))
    values.map(received.first, block->getArgument(content.arguments.size() + index));
  Value microBatch = entry == "micro_batch" ? block->getArguments().back() : Value();
  builder.setInsertionPointToEnd(block);
  for (const Piece &piece : content.pieces) {
    if (piece.between) {
      buildBetween(builder, piece.between, values);
      continue;
    }
    const Run &run = runs[piece.run];
    buildRun(run.ops.front()->getLoc(), run, callees[piece.run], values, microBatch);
  }
  Operation *end = function.getBody().front().getTerminator();
  SmallVector<Value> results;
  for (unsigned i : content.results)
    results.push_back(values.lookup(end->getOperand(i)));
  for (auto &[value, number] : content.sent)
    results.push_back(values.lookup(value));
  func::ReturnOp::create(builder, end->getLoc(), results);
  return stage;
}

void Outliner::outline(func::FuncOp function, StringRef entry, const std::vector<Run> &runs,
                       ArrayRef<StageContent> contents) {
  builder.setInsertionPoint(function);
  SmallVector<func::FuncOp> callees, stages;
  for (const Run &run : runs)
    callees.push_back(getClass(run));
  for (const StageContent &content : contents)
    stages.push_back(buildStage(function, entry, runs, callees, content));
  symbols.erase(function);
  for (func::FuncOp stage : stages)
    symbols.insert(stage);
}

//===----------------------------------------------------------------------===//
// Contents of the stages
//===----------------------------------------------------------------------===//

StageContent takeAll(func::FuncOp function, const Pieces &pieces, int64_t stage) {
  StageContent content;
  content.stage = stage;
  content.pieces = pieces.order;
  content.arguments = llvm::to_vector(llvm::seq<unsigned>(0, function.getNumArguments()));
  content.results = llvm::to_vector(llvm::seq<unsigned>(0, function.getNumResults()));
  return content;
}

std::vector<StageContent> divide(func::FuncOp function, const Pieces &pieces,
                                 const Stages &stages) {
  std::vector<StageContent> contents(stages.getCount());
  std::vector<llvm::SetVector<Value>> used(stages.getCount()); // values, by stage
  DenseMap<Value, int64_t> homes;
  auto getStage = [&](const Piece &piece) {
    return stages.getStage(pieces.runs[piece.run].segment.value_or(0));
  };
  for (const Piece &piece : pieces.order) {
    int64_t stage = getStage(piece);
    contents[stage].pieces.push_back(piece);
    if (piece.between)
      continue; // its stage is that of the run after it
    for (Value result : pieces.runs[piece.run].results)
      homes[result] = stage;
    used[stage].insert_range(pieces.runs[piece.run].inputs);
  }
  for (auto [i, value] :
       llvm::enumerate(function.getBody().front().getTerminator()->getOperands())) {
    auto home = homes.find(value); // an argument has no producing stage: the last stage returns it
    int64_t stage = home == homes.end() ? stages.getCount() - 1 : home->second;
    contents[stage].results.push_back(i);
    used[stage].insert(value);
  }
  DenseMap<Value, int64_t> numbers;
  for (const Piece &piece : pieces.order)
    for (Value result : piece.between ? ArrayRef<Value>() : pieces.runs[piece.run].results) {
      int64_t home = getStage(piece), number = numbers.size();
      for (auto [stage, values] : llvm::enumerate(used))
        if (int64_t(stage) != home && values.contains(result)) {
          if (numbers.try_emplace(result, number).second)
            contents[home].sent.push_back({result, number});
          contents[stage].received.push_back({result, number});
        }
    }
  for (auto [stage, content] : llvm::enumerate(contents)) {
    content.stage = stage;
    for (BlockArgument argument : function.getArguments())
      if (used[stage].contains(argument))
        content.arguments.push_back(argument.getArgNumber());
  }
  return contents;
}

} // namespace parashard::partition
