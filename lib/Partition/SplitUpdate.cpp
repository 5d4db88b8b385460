// Splits @update into one function per pipeline coordinate.
#include "lib/Partition/SplitUpdate.h"
#include "dialects/ps/Refusal.h"
#include "dialects/rank/Rank.h"
#include "lib/IR/Cloneable.h"
#include "lib/IR/Collectives.h"
#include "lib/Partition/Runs.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "parashard/Training.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::partition {

//===----------------------------------------------------------------------===//
// Uses of variables
//===----------------------------------------------------------------------===//

StageVariables::StageVariables(ModuleOp module, ArrayRef<func::FuncOp> functions)
    : module(module), symbols(module), functions(functions), stages(ir::getStages(module)) {
  for (func::FuncOp function : functions)
    recordUses(function);
  for (auto &[symbol, ofStages] : adders)
    for (auto &[stage, isWeight] : ofStages)
      accumulators[symbol].push_back({stages.getCoordinate(stage), symbol});
}

StageVariables::Adder StageVariables::getAdder(Operation *op) const {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return {stages.getStage(getSegment(op).value_or(0)),
          phase && phase.getValue() == Phase::BackwardWeight};
}

/// Records the uses of a function's variables. A cloneable op counts as used in the stages of its
/// users, because their segments clone the op.
void StageVariables::recordUses(func::FuncOp function) {
  DenseSet<Operation *> cloneable = findCloneableOps(function);
  DenseMap<Operation *, std::set<int64_t>> usedIn;
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    std::set<int64_t> &here = usedIn[&op];
    std::optional<int64_t> segment = getSegment(&op);
    if (op.hasTrait<OpTrait::IsTerminator>())
      here.insert(stages.getCount() - 1); // the last stage returns the results
    else if (!cloneable.contains(&op) && segment)
      here.insert(stages.getStage(*segment));
    for (Operation *user : op.getUsers())
      if (cloneable.contains(&op))
        here.insert(usedIn[user].begin(), usedIn[user].end());
    FlatSymbolRefAttr variable = getVariable(&op);
    if (!variable)
      continue;
    StringAttr symbol = variable.getAttr();
    users[getRoot(symbol)].insert(here.begin(), here.end());
    // `@micro_batch` may write the accumulator `loss.count`. The written value is computed from the
    // sums of `@count`, or is 1 if the first part of the loss is a sum. Such a write counts as an
    // addition to the accumulator (see `Adder`).
    bool isAccumulator = isa<WriteOp>(op) &&
                         symbols.lookup<VariableOp>(symbol).getKind() == VariableKind::Accumulator;
    if (isa<AccumulateOp>(op) || isAccumulator)
      adders[symbol].insert(getAdder(&op));
    else if (isa<WriteOp>(op))
      writers.try_emplace(symbol, &op);
  }
}

StringAttr StageVariables::getRoot(StringAttr symbol) const {
  while (auto variable = symbols.lookup<VariableOp>(symbol)) {
    if (!variable.getOfAttr() || variable->hasAttr(kSharedMark))
      break;
    symbol = variable.getOfAttr().getAttr();
  }
  return symbol;
}

SmallVector<int64_t> StageVariables::getHolders(StringAttr symbol) const {
  std::set<int64_t> coordinates;
  StringAttr root = getRoot(symbol);
  if (auto known = users.find(root); known != users.end())
    for (int64_t stage : known->second)
      coordinates.insert(stages.getCoordinate(stage));
  auto variable = symbols.lookup<VariableOp>(root);
  if (variable && variable->hasAttr(kSharedMark)) // every coordinate keeps an identical copy
    coordinates.clear();
  if (coordinates.empty()) {
    if (variable && variable.getKind() == VariableKind::Parameter)
      return {0};
    return llvm::to_vector(llvm::seq<int64_t>(0, stages.placement.ranks));
  }
  return SmallVector<int64_t>(coordinates.begin(), coordinates.end());
}

int64_t StageVariables::getFirstStage(StringAttr symbol) const {
  auto known = users.find(getRoot(symbol));
  return known == users.end() || known->second.empty() ? 0 : *known->second.begin();
}

ArrayRef<std::pair<int64_t, StringAttr>> StageVariables::getAccumulators(StringAttr symbol) const {
  auto known = accumulators.find(symbol);
  return known == accumulators.end() ? ArrayRef<std::pair<int64_t, StringAttr>>() : known->second;
}

LogicalResult StageVariables::verifyState() {
  for (auto &[symbol, write] : writers) {
    auto known = users.find(getRoot(symbol));
    if (known == users.end() || known->second.size() < 2)
      continue;
    std::string list;
    for (int64_t stage : known->second)
      list += (list.empty() ? "" : ", ") + std::to_string(stage);
    InFlightDiagnostic error =
        refuse(write) << "'" << write->getName() << "' updates " << symbol << ", but stages "
                      << list
                      << " of the pipeline use this variable; only one stage can use such a "
                         "variable: cut the model so that all users of "
                      << symbol << " are in one stage (--split-method NAME,...)";
    error.attachNote(symbols.lookup(symbol)->getLoc()) << "declared here";
    return error;
  }
  return success();
}

void StageVariables::separateAccumulators() {
  std::map<std::pair<const void *, Adder>, StringAttr> separate;
  for (auto &[symbol, ofVariable] : adders) {
    unsigned index = 0;
    for (const Adder &adder : ofVariable) {
      if (index++ == 0)
        continue;
      auto variable = symbols.lookup<VariableOp>(symbol);
      OpBuilder builder(variable->getContext());
      builder.setInsertionPointAfter(variable);
      auto copy = cast<VariableOp>(builder.clone(*variable));
      copy.setSymName(
          (symbol.getValue() + ".stage" + Twine(adder.first) + (adder.second ? ".weight" : ""))
              .str());
      copy->setAttr(kAddsToMark, FlatSymbolRefAttr::get(symbol));
      separate[{symbol.getAsOpaquePointer(), adder}] = symbols.insert(copy);
      accumulators[symbol][index - 1].second = copy.getSymNameAttr();
    }
  }
  for (func::FuncOp function : functions)
    function.walk([&](AccumulateOp op) {
      auto known =
          separate.find({op.getVariableAttr().getAttr().getAsOpaquePointer(), getAdder(op)});
      if (known != separate.end())
        op.setVariableAttr(FlatSymbolRefAttr::get(known->second));
    });
}

//===----------------------------------------------------------------------===//
// One coordinate's update
//===----------------------------------------------------------------------===//

namespace {
class CoordinateUpdate {
public:
  CoordinateUpdate(func::FuncOp function, int64_t coordinate, const StageVariables &variables)
      : function(function), coordinate(coordinate), variables(variables),
        module(function->getParentOfType<ModuleOp>()), builder(function->getContext()) {}

  /// Removes all writes except those to the coordinate's variables. Restricts sums over parameters
  /// to the coordinate's parameters, and reduces these sums over coordinates.
  LogicalResult restrict() {
    for (auto write : llvm::make_early_inc_range(function.getOps<WriteOp>()))
      if (!llvm::is_contained(variables.getHolders(write.getVariableAttr().getAttr()), coordinate))
        write.erase();
    eraseUnused(); // first erase sums that only the erased writes used
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
      if (failed(visit(&op)))
        return failure();
    eraseUnused();
    return success();
  }

  bool reads(StringAttr symbol) {
    return llvm::any_of(function.getOps<ReadOp>(),
                        [&](ReadOp read) { return read.getVariableAttr().getAttr() == symbol; });
  }

  /// Replaces reads of `symbol` by the sum over all stages that add to it: first over the
  /// coordinate's own stages, then over the member coordinates.
  void combine(StringAttr symbol, ArrayRef<int64_t> members) {
    for (auto read : llvm::make_early_inc_range(function.getOps<ReadOp>()))
      if (read.getVariableAttr().getAttr() == symbol)
        combine(read, members);
  }

private:
  /// The parameters that a value depends on: none, one, or a sum over several.
  struct Origin {
    StringAttr parameter;
    bool isSum = false;
  };

  Origin getOrigin(Value value) { return origins.lookup(value.getDefiningOp()); }

  LogicalResult visit(Operation *op) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      auto root = SymbolTable::lookupNearestSymbolFrom<VariableOp>(
          op, variables.getRoot(read.getVariableAttr().getAttr()));
      if (root && root.getKind() == VariableKind::Parameter)
        origins[op].parameter = root.getSymNameAttr();
      return success();
    }
    if (isPartOfSum(op)) {
      origins[op].isSum = true;
      return success();
    }
    for (OpOperand &operand : op->getOpOperands())
      if (getOrigin(operand.get()).isSum)
        operand.set(combineSum(operand.get()));
    StringAttr parameter;
    for (Value operand : op->getOperands()) {
      StringAttr other = getOrigin(operand).parameter;
      if (other && parameter && other != parameter)
        return op->emitOpError()
               << "combines parameters " << parameter << " and " << other
               << " in the update; with a pipeline, only sums may combine several parameters, even "
                  "parameters of one stage";
      parameter = other ? other : parameter;
    }
    origins[op].parameter = parameter;
    return success();
  }

  /// Returns true for an op that is part of a sum over parameters. Such an op is an addition whose
  /// operands both depend on parameters. Either the operands depend on different parameters, or an
  /// operand is itself a sum over parameters. Example: a + b, and then (a + b) + c.
  ///
  /// Also returns true for an all_reduce (sum) of a sum over parameters. The axes of the all_reduce
  /// do not include the pipeline axis, because only `reduce` creates reductions over that axis.
  bool isPartOfSum(Operation *op) {
    if (auto reduce = dyn_cast<AllReduceOp>(op))
      return reduce.getKind() == ReductionKind::Sum && getOrigin(reduce.getOperand()).isSum;
    if (!isa<AddOp>(op))
      return false;
    Origin a = getOrigin(op->getOperand(0)), b = getOrigin(op->getOperand(1));
    bool aCounts = a.isSum || a.parameter, bCounts = b.isSum || b.parameter;
    return aCounts && bCounts && (a.isSum || b.isSum || a.parameter != b.parameter);
  }

  /// Builds a stage's part of a sum over parameters. Each parameter counts in the first stage that
  /// uses it. Returns null if no parameter of the sum counts in the stage.
  Value buildPart(Value sum, int64_t stage) {
    Origin origin = getOrigin(sum);
    if (!origin.isSum)
      return variables.getFirstStage(origin.parameter) == stage ? sum : Value();
    Operation *op = sum.getDefiningOp();
    if (isa<AddOp>(op)) {
      Value a = buildPart(op->getOperand(0), stage), b = buildPart(op->getOperand(1), stage);
      return a && b ? Value(mark(AddOp::create(builder, op->getLoc(), a, b))) : a ? a : b;
    }
    Value own = buildPart(op->getOperand(0), stage);
    if (!own)
      return {};
    IRMapping values;
    values.map(op->getOperand(0), own);
    return builder.clone(*op, values)->getResult(0);
  }

  /// Gives a new op the phase `update`.
  template <typename Op> Op mark(Op op) {
    op->setAttr(kPhaseMark, PhaseAttr::get(op->getContext(), Phase::Update));
    return op;
  }

  /// Builds the complete value of a sum over parameters. The parts of all stages (`buildPart`) are
  /// gathered and added in the order of stages, so the bits do not depend on the placement of
  /// stages. Example with 2 stages on 2 coordinates: coordinate 0 contributes [a, 0] and coordinate
  /// 1 contributes [0, b]. An all_reduce yields [a, b] on both coordinates, and a local sum yields
  /// a + b.
  Value combineSum(Value sum) {
    Value &known = combined[sum];
    if (known)
      return known;
    Location loc = sum.getLoc();
    builder.setInsertionPointAfter(sum.getDefiningOp());
    const Stages &stages = variables.getStages();
    auto type = cast<RankedTensorType>(sum.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.insert(shape.begin(), 1);
    RankedTensorType partType = type.clone(shape);
    Value zero = mark(ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(partType, builder.getZeroAttr(type.getElementType()))));
    SmallVector<Value> parts;
    for (int64_t stage = 0; stage < stages.getCount(); ++stage) {
      bool isHere = stages.getCoordinate(stage) == coordinate;
      Value part = isHere ? buildPart(sum, stage) : Value();
      parts.push_back(part ? Value(mark(ReshapeOp::create(builder, loc, partType, part))) : zero);
    }
    shape.front() = parts.size();
    Value all = mark(ConcatOp::create(builder, loc, type.clone(shape), parts, 0));
    std::string name = "sum " + std::to_string(combined.size());
    return known = mark(ReduceOp::create(builder, loc, type, ReductionKind::Sum,
                                         reduce(all, {}, name), ArrayRef<int64_t>{0}));
  }

  /// Builds the sum of `value` over the coordinates `members` (empty: all). `name` is the name of
  /// the reduced value (`ps.reduced`).
  Value reduce(Value value, ArrayRef<int64_t> members, StringRef name) {
    auto op = mark(AllReduceOp::create(builder, value.getLoc(), value.getType(), ReductionKind::Sum,
                                       value, builder.getArrayAttr({getPipelineAxis(module)})));
    op->setAttr(kReducedMark, builder.getStringAttr(name));
    if (!members.empty())
      op->setAttr(kCoordinatesMark, builder.getDenseI64ArrayAttr(members));
    return op;
  }

  void combine(ReadOp read, ArrayRef<int64_t> members) {
    SmallVector<Operation *> chain{read}; // the read, then its reductions over other axes
    while (chain.back()->hasOneUse() && isCollective(*chain.back()->user_begin()))
      chain.push_back(*chain.back()->user_begin());
    Value end = chain.back()->getResult(0);
    builder.setInsertionPointAfter(chain.back());
    Value sum;
    DenseSet<Operation *> built(chain.begin(), chain.end());
    StringAttr variable = read.getVariableAttr().getAttr();
    for (auto &[where, symbol] : variables.getAccumulators(variable)) {
      if (where != coordinate)
        continue;
      Value term = sum ? copyChain(chain, symbol) : end;
      if (!sum)
        read.setVariableAttr(FlatSymbolRefAttr::get(symbol));
      sum = sum ? Value(mark(AddOp::create(builder, term.getLoc(), sum, term))) : term;
      built.insert(sum.getDefiningOp());
    }
    // If `sum` is null, no stage of this coordinate adds to the variable, so the read yields zero.
    sum = sum ? sum : end;
    if (members.size() > 1)
      sum = reduce(sum, members, variable.getValue());
    built.insert(sum.getDefiningOp());
    end.replaceUsesWithIf(sum, [&](OpOperand &use) { return !built.contains(use.getOwner()); });
  }

  Value copyChain(ArrayRef<Operation *> chain, StringAttr symbol) {
    IRMapping values;
    Operation *copy = nullptr;
    for (Operation *op : chain) {
      copy = builder.clone(*op, values);
      if (auto read = dyn_cast<ReadOp>(copy))
        read.setVariableAttr(FlatSymbolRefAttr::get(symbol));
    }
    return copy->getResult(0);
  }

  void eraseUnused() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  func::FuncOp function;
  int64_t coordinate;
  const StageVariables &variables;
  ModuleOp module;
  OpBuilder builder;
  DenseMap<Operation *, Origin> origins;
  DenseMap<Value, Value> combined;
};

/// Reduces each accumulated variable over the coordinates that read the variable or add to it.
/// Skips a variable that no coordinate reads. Also skips a variable that has one accumulator and is
/// read by one coordinate. This coordinate also adds to the variable, so the sum is already
/// complete.
void combineAccumulators(ModuleOp module, MutableArrayRef<CoordinateUpdate> updates,
                         const StageVariables &variables) {
  for (auto variable : module.getOps<VariableOp>()) {
    StringAttr symbol = variable.getSymNameAttr();
    auto accumulators = variables.getAccumulators(symbol);
    if (accumulators.empty())
      continue;
    std::set<int64_t> members;
    for (auto [coordinate, update] : llvm::enumerate(updates))
      if (update.reads(symbol))
        members.insert(coordinate);
    if (members.empty() || (accumulators.size() == 1 && members.size() == 1))
      continue;
    for (auto &[coordinate, _] : accumulators)
      members.insert(coordinate);
    SmallVector<int64_t> list(members.begin(), members.end());
    for (CoordinateUpdate &update : updates)
      update.combine(symbol, list);
  }
}
} // namespace

LogicalResult splitUpdate(ModuleOp module, const StageVariables &variables) {
  auto update = module.lookupSymbol<func::FuncOp>("update");
  if (!update)
    return success();
  std::vector<CoordinateUpdate> updates;
  OpBuilder builder(update);
  for (int64_t i = 0; i < variables.getStages().placement.ranks; ++i) {
    auto function = cast<func::FuncOp>(builder.clone(*update));
    function.setSymName(("update.pp" + Twine(i)).str());
    function->setAttr(kCoordinateMark, builder.getI64IntegerAttr(i));
    updates.emplace_back(function, i, variables);
    if (failed(updates.back().restrict()))
      return failure();
  }
  update.erase();
  combineAccumulators(module, updates, variables);
  return success();
}

} // namespace parashard::partition
