// Partitions a function op by op: reshards the operands, builds the local op, and reshards the
// results to their `ps.shardings`.
#include "lib/Partition/FunctionPartitioner.h"
#include "dialects/rank/Rank.h"
#include "lib/IR/Stages.h"
#include "lib/Partition/BuildReshard.h"
#include "lib/Partition/LocalBuilder.h"
#include "lib/Partition/Runs.h"
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/OpShardingCache.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;
using namespace parashard::sharding;

namespace parashard::partition {

std::optional<int64_t> getRunOrder(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  auto segment = op->getAttrOfType<IntegerAttr>(kSegmentMark);
  if (!phase || !segment)
    return std::nullopt;
  constexpr int64_t backward = int64_t(1) << 40;
  switch (phase.getValue()) {
  case Phase::Forward:
  case Phase::Evaluate:
    return segment.getInt();
  case Phase::BackwardInput:
    return backward - 2 * segment.getInt();
  case Phase::BackwardWeight:
    return backward - 2 * segment.getInt() + 1;
  case Phase::Update:
    return 2 * backward;
  }
  llvm_unreachable("all phases are handled");
}

namespace {
/// The local value (on one rank) that represents a global value, and its sharding.
struct Held {
  Value local;
  ShardingAttr sharding; ///< null for values that are not tensors
  /// For a parameter that each run gathers for itself: the sharding after the all-gather, with
  /// which ops use the parameter. Null for all other values.
  ShardingAttr gathered = {};

  ShardingAttr getSeen() const { return gathered ? gathered : sharding; }
};

class FunctionPartitioner {
public:
  FunctionPartitioner(func::FuncOp function, MeshOp mesh, SymbolTable &symbols)
      : function(function), meshOp(mesh), mesh(mesh), symbols(symbols) {}

  LogicalResult run() {
    createLocalFunction();
    LocalBuilder localBuilder(mesh, &local.getBody().front());
    builder = &localBuilder;
    for (Operation &op : function.getBody().front())
      if (failed(partition(&op)))
        return local.erase(), failure();
    moveReshardsToUsers();
    eraseUnused();
    symbols.remove(function);
    function.erase();
    symbols.insert(local);
    return success();
  }

private:
  //===--- the function ---===//

  ShardingAttr simplified(ShardingAttr sharding, Type type) const {
    return simplify(sharding, cast<RankedTensorType>(type).getShape(), mesh);
  }

  RankedTensorType getLocal(Type type, ShardingAttr sharding) {
    return getLocalType(cast<RankedTensorType>(type), sharding, meshOp);
  }

  void createLocalFunction() {
    SmallVector<Type> inputs, results;
    for (BlockArgument arg : function.getArguments()) {
      auto sharding = function.getArgAttrOfType<ShardingAttr>(arg.getArgNumber(), kShardingMark);
      bool isTensor = isa<RankedTensorType>(arg.getType());
      held[arg].sharding = isTensor ? simplified(sharding, arg.getType()) : ShardingAttr();
      inputs.push_back(isTensor ? getLocal(arg.getType(), held[arg].sharding) : arg.getType());
    }
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      results.push_back(getLocal(type, getReturnedSharding(i)));
    OpBuilder b(function);
    local = func::FuncOp::create(b, function.getLoc(), function.getName(),
                                 b.getFunctionType(inputs, results));
    local->setDiscardableAttrs(function->getDiscardableAttrDictionary());
    local.setVisibility(function.getVisibility());
    copyArgumentAttrs();
    Block *block = local.addEntryBlock();
    for (auto [arg, localArg] : llvm::zip(function.getArguments(), block->getArguments())) {
      localArg.setLoc(arg.getLoc());
      held[arg].local = localArg;
    }
  }

  ShardingAttr getReturnedSharding(unsigned i) {
    return simplified(function.getResultAttrOfType<ShardingAttr>(i, kShardingMark),
                      function.getResultTypes()[i]);
  }

  /// Keeps names and shardings of arguments and results, and records their global types.
  void copyArgumentAttrs() {
    if (ArrayAttr attrs = function.getAllArgAttrs())
      local.setAllArgAttrs(attrs);
    if (ArrayAttr attrs = function.getAllResultAttrs())
      local.setAllResultAttrs(attrs);
    for (BlockArgument arg : function.getArguments()) {
      if (!held[arg].sharding)
        continue;
      local.setArgAttr(arg.getArgNumber(), kGlobalMark, TypeAttr::get(arg.getType()));
      local.setArgAttr(arg.getArgNumber(), kShardingMark, held[arg].sharding);
    }
    for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
      local.setResultAttr(i, kGlobalMark, TypeAttr::get(type));
      local.setResultAttr(i, kShardingMark, getReturnedSharding(i));
    }
  }

  //===--- values ---===//

  /// Returns the local value of `value`, resharded to `wanted` (null: not resharded). Reuses an
  /// earlier resharding of `value` to `wanted`, with two exceptions. Backward reuses a resharding
  /// of forward only if `value` is partial, so that gathered values need not be saved for backward.
  /// Each run gathers a parameter with `Held::gathered` for itself.
  Value getAs(Value value, ShardingAttr wanted) {
    const Held &source = held[value];
    if (!wanted || wanted == source.sharding)
      return source.local;
    bool isBackward = source.sharding.getPartial().empty() && ir::isBackward(current);
    int64_t run = source.gathered ? getRunOrder(current).value_or(-1) : int64_t(isBackward);
    Value &known = reshards[{value, {wanted, run}}];
    if (!known) {
      Operation *last = lastOp();
      explainOperand(value, source.sharding, wanted);
      auto type = cast<RankedTensorType>(value.getType());
      known = buildReshard(*builder, current->getLoc(), source.local,
                           planReshard(type.getShape(), source.sharding, wanted, mesh));
      for (Operation *op = last ? last->getNextNode() : &builder->getBlock()->front(); op;
           op = op->getNextNode())
        reshardOps.push_back(op);
    }
    return known;
  }

  Operation *lastOp() {
    Block *block = builder->getBlock();
    return block->empty() ? nullptr : &block->back();
  }

  /// Records the global type and sharding of a value whose padding is unspecified. The evaluator
  /// fills this padding with NaN, to expose ops that do not mask padding.
  void markPadding(Value local, RankedTensorType global, ShardingAttr sharding) {
    auto result = dyn_cast<OpResult>(local);
    if (!result || !isa<EvaluateOpInterface>(result.getOwner()) || getSharding(local) ||
        builder->isZeroPadded(local) ||
        !builder->hasPadding(global, cast<RankedTensorType>(local.getType()), sharding))
      return;
    Operation *op = result.getOwner();
    SmallVector<Attribute> globals(op->getNumResults(), UnitAttr::get(op->getContext()));
    if (auto before = op->getAttrOfType<ArrayAttr>(kGlobalMark))
      llvm::copy(before, globals.begin());
    globals[result.getResultNumber()] = TypeAttr::get(global);
    op->setAttr(kGlobalMark, ArrayAttr::get(op->getContext(), globals));
    setSharding(local, sharding);
  }

  /// Reshards `raw`, the local value of `result`, from `rawSharding` to `marked`. If `marked` is
  /// null, keeps the splits of `rawSharding` and reduces partial values. Records the resharded
  /// value for the users of `result`.
  void bind(Value result, Value raw, ShardingAttr rawSharding, ShardingAttr marked) {
    auto type = cast<RankedTensorType>(result.getType());
    markPadding(raw, type, rawSharding);
    ShardingAttr wanted = simplified(marked ? marked : rawSharding.withoutPartial(), type);
    if (wanted != rawSharding)
      explainResult(rawSharding);
    Value value = buildReshard(*builder, current->getLoc(), raw,
                               planReshard(type.getShape(), rawSharding, wanted, mesh));
    held[result] = {value, wanted};
  }

  //===--- causes of reshardings ---===//

  VariableOp findVariable(Operation *op) {
    FlatSymbolRefAttr symbol = partition::getVariable(op);
    return symbol ? symbols.lookup<VariableOp>(symbol.getValue()) : VariableOp();
  }

  void explainVariable(VariableOp variable, ShardingAttr from) {
    StringRef verb = isa<ReadOp>(current)    ? "read"
                     : isa<WriteOp>(current) ? "write"
                                             : "accumulation";
    builder->setReshardCause(stringifyVariableKind(variable.getKind()) + " " + verb,
                             from.getPartial().empty() ? "the variable has another sharding"
                                                       : "partial sums over the batch");
  }

  void explainOperand(Value value, ShardingAttr from, ShardingAttr wanted) {
    if (held[value].gathered)
      return builder->setReshardCause("parameter read",
                                      "each run that uses the parameter gathers the shards");
    if (VariableOp variable = findVariable(current))
      return explainVariable(variable, from);
    if (isa<func::ReturnOp>(current))
      return builder->setReshardCause("result of the function", "the result has this sharding");
    unsigned operand = llvm::find(current->getOperands(), value) - current->operand_begin();
    builder->setReshardCause("operand " + Twine(operand) + " of " +
                                 current->getName().getStringRef(),
                             "the op runs with " + describe(wanted));
  }

  void explainResult(ShardingAttr from) {
    if (VariableOp variable = findVariable(current))
      return explainVariable(variable, from);
    builder->setReshardCause("result of " + current->getName().getStringRef(),
                             from.getPartial().empty() ? "its users need this sharding"
                                                       : "a summed dim is split");
  }

  //===--- ops ---===//

  LogicalResult partition(Operation *op) {
    current = op;
    builder->serve(op, nullptr);
    if (auto read = dyn_cast<ReadOp>(op))
      return partitionRead(read);
    if (auto write = dyn_cast<WriteOp>(op))
      return partitionWrite(write);
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      return partitionAccumulate(accumulate);
    if (auto ret = dyn_cast<func::ReturnOp>(op))
      return partitionReturn(ret);
    if (isa<ShardingOpInterface>(op))
      return partitionTensorOp(op);
    return op->emitOpError("has no sharding rule; it cannot be partitioned");
  }

  LogicalResult partitionTensorOp(Operation *op) {
    SmallVector<ShardingAttr> has, marks;
    for (Value operand : op->getOperands())
      has.push_back(held[operand].getSeen());
    for (Value result : op->getResults())
      marks.push_back(getSharding(result));
    OpSharding sharding = opShardings.get(op, has, marks);
    SmallVector<Value> locals;
    for (auto [operand, wanted] : llvm::zip(op->getOperands(), sharding.operands))
      locals.push_back(getAs(operand, wanted));
    SmallVector<Type> types;
    for (auto [result, raw] : llvm::zip(op->getResults(), sharding.results))
      types.push_back(getLocal(result.getType(), raw));
    builder->serve(op, &sharding);
    auto partitionable = dyn_cast<PartitionOpInterface>(op);
    FailureOr<SmallVector<Value>> values = partitionable
                                               ? partitionable.partition(*builder, locals, types)
                                               : partitionByCloning(op, *builder, locals, types);
    if (failed(values))
      return op->emitOpError("cannot be partitioned with its shardings");
    for (auto [i, value] : llvm::enumerate(*values))
      bind(op->getResult(i), value, sharding.results[i], marks[i]);
    return success();
  }

  FailureOr<VariableOp> getVariable(Operation *op, FlatSymbolRefAttr symbol) {
    auto variable = symbol ? symbols.lookup<VariableOp>(symbol.getValue()) : VariableOp();
    if (!variable)
      return op->emitOpError("names a variable that this module lacks");
    return variable;
  }

  /// Returns true for a parameter, or its copy, that each run gathers before use and frees
  /// afterwards (ZeRO-3).
  bool isGathered(VariableOp variable, ShardingAttr has, ShardingAttr seen) const {
    bool isWeight =
        variable.getKind() == VariableKind::Parameter || variable.getKind() == VariableKind::Copy;
    return isWeight && has != seen && has.getPartial().empty() &&
           getLocalType(variable.getTensorType(), has, meshOp).getNumElements() <
               getLocalType(variable.getTensorType(), seen, meshOp).getNumElements();
  }

  /// Returns true if the only user of a read converts the value to a narrower type. Example: a
  /// gradient that ranks reduce in bf16.
  static bool isNarrowed(ReadOp read) {
    Value value = read.getResult();
    auto convert = value.hasOneUse() ? dyn_cast<ConvertOp>(*value.user_begin()) : ConvertOp();
    return convert && getByteSize(convert.getType()) < getByteSize(value.getType());
  }

  /// Partitions a read. In `@update`, a partial value is reduced directly after the read, or after
  /// its conversion to a narrower type.
  LogicalResult partitionRead(ReadOp read) {
    auto variable = getVariable(read, read.getVariableAttr());
    if (failed(variable))
      return failure();
    Type type = read.getType();
    ShardingAttr has = simplified(variable->getSharding(), type);
    ShardingAttr marked = getSharding(read.getResult());
    marked = marked ? marked : has;
    auto phase = read->getAttrOfType<PhaseAttr>(kPhaseMark);
    if (phase && phase.getValue() == Phase::Update && !isNarrowed(read))
      marked = marked.withoutPartial();
    Value local = builder->make<ReadOp>(getLocal(type, has), read.getVariableAttr(), Value());
    if (ShardingAttr seen = simplified(marked, type); isGathered(*variable, has, seen)) {
      markPadding(local, cast<RankedTensorType>(type), has);
      held[read.getResult()] = {local, has, seen};
      return success();
    }
    bind(read.getResult(), local, has, marked);
    return success();
  }

  /// Returns the value with the variable's sharding and zeros in its padding.
  Value getForVariable(Value value, VariableOp variable) {
    ShardingAttr sharding = simplified(variable.getSharding(), value.getType());
    return builder->zeroPadding(getAs(value, sharding), cast<RankedTensorType>(value.getType()),
                                sharding);
  }

  LogicalResult partitionWrite(WriteOp write) {
    auto variable = getVariable(write, write.getVariableAttr());
    if (failed(variable))
      return failure();
    Value value = getForVariable(write.getValue(), *variable);
    Value condition = write.getCondition();
    if (condition)
      condition = getAs(condition, simplified({}, condition.getType()));
    builder->make<WriteOp>(write.getVariableAttr(), Value(), value, condition);
    return success();
  }

  LogicalResult partitionAccumulate(AccumulateOp accumulate) {
    auto variable = getVariable(accumulate, accumulate.getVariableAttr());
    if (failed(variable))
      return failure();
    Value value = getForVariable(accumulate.getValue(), *variable);
    builder->make<AccumulateOp>(accumulate.getVariableAttr(), Value(), value, accumulate.getKind());
    return success();
  }

  LogicalResult partitionReturn(func::ReturnOp ret) {
    SmallVector<Value> values;
    for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
      // A resharding of a result gets the phase and segment of the op that produces the result.
      Operation *producer = value.getDefiningOp();
      builder->serve(producer ? producer : &ret->getBlock()->front(), nullptr);
      values.push_back(getAs(value, getReturnedSharding(i)));
    }
    builder->serve(ret, nullptr);
    builder->make<func::ReturnOp>(values);
    return success();
  }

  //===--- clean-up ---===//

  /// Sets the phase and segment of each resharding to those of its first user in execution order.
  /// Before this call, a resharding has those of its first user in program order.
  void moveReshardsToUsers() {
    for (Operation *op : llvm::reverse(reshardOps)) {
      Operation *first = nullptr;
      for (Operation *user : op->getUsers()) {
        auto order = getRunOrder(user);
        if (order && (!first || *order < *getRunOrder(first)))
          first = user;
      }
      if (first)
        copyMarks(first, op);
    }
  }

  void eraseUnused() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(local.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  func::FuncOp function, local;
  MeshOp meshOp;
  MeshShape mesh;
  OpShardingCache opShardings{mesh};
  SymbolTable &symbols;
  LocalBuilder *builder = nullptr;
  Operation *current = nullptr;
  DenseMap<Value, Held> held;
  DenseMap<std::pair<Value, std::pair<Attribute, int64_t>>, Value> reshards;
  SmallVector<Operation *> reshardOps;
};
} // namespace

LogicalResult partitionFunction(func::FuncOp function, MeshOp mesh, SymbolTable &symbols) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError(
        "has several blocks; only functions with one block can be partitioned");
  return FunctionPartitioner(function, mesh, symbols).run();
}

} // namespace parashard::partition
