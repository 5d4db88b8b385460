// Cuts functions into runs by segment and phase, and compares runs.
#include "lib/Partition/Runs.h"
#include "lib/IR/Cloneable.h"
#include "lib/IR/ModulePath.h"
#include "lib/Partition/FunctionPartitioner.h"
#include "llvm/ADT/SetVector.h"
#include <map>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::partition {

std::optional<int64_t> getRandomKey(Operation *op) {
  auto random = dyn_cast<RandomOpInterface>(op);
  auto key = op->getAttrOfType<IntegerAttr>(kKeyMark);
  if (!random || !key || !random.isTraining())
    return std::nullopt;
  return key.getInt();
}

FlatSymbolRefAttr getVariable(Operation *op) {
  if (auto read = dyn_cast<ReadOp>(op))
    return read.getVariableAttr();
  if (auto write = dyn_cast<WriteOp>(op))
    return write.getVariableAttr();
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    return accumulate.getVariableAttr();
  return {};
}

//===----------------------------------------------------------------------===//
// Inputs, variables, keys, results
//===----------------------------------------------------------------------===//

/// Returns true if each user reads the result of a transpose through strides, so that the transpose
/// needs no buffer. Example: the heads that attention and its gradient read.
static bool isReadThroughStrides(TransposeOp transpose) {
  ArrayRef<int64_t> order = transpose.getPermutation();
  if (order.empty() || order.back() != int64_t(order.size()) - 1)
    return false;
  return llvm::all_of(transpose->getUses(), [](OpOperand &use) {
    auto lowering = dyn_cast<LoweringOpInterface>(use.getOwner());
    return lowering && !isa<ReshapeOp>(use.getOwner()) &&
           lowering.readsStrides(use.getOperandNumber());
  });
}

/// Returns true if the code of an op moves no data (a view). If a run uses a view that another run
/// computes, the run builds its own copy of the view from the operand.
static bool isView(Operation *op) {
  auto transpose = dyn_cast<TransposeOp>(op);
  return transpose ? isReadThroughStrides(transpose) : isa<ReshapeOp, BroadcastOp>(op);
}

namespace {
/// Maps each op of a function to the index of its run.
using Homes = DenseMap<Operation *, unsigned>;

/// Completes runs: adds clones of ops, and sets inputs, variables, keys and results.
class Completer {
public:
  Completer(std::vector<Run> &runs, const DenseSet<Operation *> &cloneable)
      : runs(runs), cloneable(cloneable) {
    for (auto [i, run] : llvm::enumerate(runs))
      for (Operation *op : run.ops)
        homes[op] = i;
  }

  void complete() {
    for (auto [i, run] : llvm::enumerate(runs))
      gather(run, i);
    for (Run &run : runs)
      collectUses(run);
  }

  /// Records that `user` (null: an op between runs) uses a value. Ignores values that no run
  /// produces.
  void recordResult(Value value, Run *user) {
    Operation *producer = value.getDefiningOp();
    auto home = producer ? homes.find(producer) : homes.end();
    if (home == homes.end())
      return;
    bool isForward = !user || user->phase == runs[home->second].phase;
    bool &kept = boundary.try_emplace(value, false).first->second;
    kept |= isForward;
  }

  /// Sets the results of runs. Results used in the same phase (or between runs) precede results
  /// that only later phases use (`saved`).
  void setResults() {
    for (Run &run : runs) {
      SmallVector<Value> saved;
      for (Operation *op : run.ops)
        for (Value result : op->getResults()) {
          auto it = boundary.find(result);
          if (it == boundary.end() || homes.lookup(op) != unsigned(&run - runs.data()) ||
              !homes.contains(op))
            continue;
          (it->second ? run.results : saved).push_back(result);
        }
      run.saved = saved.size();
      run.results.append(saved);
    }
  }

private:
  bool isRebuilt(Operation *producer, unsigned run) const {
    if (!producer)
      return false;
    if (cloneable.contains(producer))
      return true;
    auto home = homes.find(producer);
    return home != homes.end() && home->second != run && isView(producer);
  }

  /// Inserts the ops that the run clones, each before its first user.
  void gather(Run &run, unsigned index) {
    SmallVector<Operation *> own = std::move(run.ops);
    llvm::SetVector<Operation *> all;
    std::function<void(Operation *)> add = [&](Operation *op) {
      if (all.contains(op))
        return;
      for (Value operand : op->getOperands())
        if (isRebuilt(operand.getDefiningOp(), index))
          add(operand.getDefiningOp());
      all.insert(op);
    };
    for (Operation *op : own)
      add(op);
    run.ops = all.takeVector();
  }

  void collectUses(Run &run) {
    DenseSet<Value> inside;
    llvm::SetVector<Value> inputs;
    llvm::SetVector<Attribute> variables;
    llvm::SetVector<int64_t> keys;
    for (Operation *op : run.ops) {
      for (Value operand : op->getOperands())
        if (!inside.contains(operand) && inputs.insert(operand))
          recordResult(operand, &run);
      for (Value result : op->getResults())
        inside.insert(result);
      if (FlatSymbolRefAttr variable = getVariable(op))
        variables.insert(variable);
      if (auto key = getRandomKey(op))
        keys.insert(*key);
    }
    run.inputs = SmallVector<Value>(inputs.getArrayRef());
    run.variables = SmallVector<Attribute>(variables.getArrayRef());
    run.keys = SmallVector<int64_t>(keys.getArrayRef());
  }

  std::vector<Run> &runs;
  const DenseSet<Operation *> &cloneable;
  Homes homes;
  /// Values that are used outside of their run. True if a use is in the same phase or between runs.
  DenseMap<Value, bool> boundary;
};
} // namespace

void completeRuns(func::FuncOp function, std::vector<Run> &runs,
                  const DenseSet<Operation *> &cloneable) {
  DenseSet<Operation *> inRuns;
  for (Run &run : runs)
    inRuns.insert(run.ops.begin(), run.ops.end());
  Completer completer(runs, cloneable);
  completer.complete();
  for (Operation &op : function.getBody().front())
    if (!inRuns.contains(&op) && !cloneable.contains(&op))
      for (Value operand : op.getOperands())
        completer.recordResult(operand, nullptr);
  completer.setResults();
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// Returns the name of a run: the name of the ModuleList that contains its layer. Otherwise returns
/// the name of the module of its first op, or "segment". Example: ops of `h.3` give `h`.
static std::string nameRun(ArrayRef<Operation *> ops) {
  std::string name;
  for (Operation *op : ops) {
    auto path = getModulePath(op->getLoc());
    if (!path)
      continue;
    if (StringRef block = getBlockOfPath(*path); !block.empty())
      return getListName(block).str();
    if (name.empty())
      name = path->rsplit('.').second.empty() ? path->str() : path->rsplit('.').second.str();
  }
  return name.empty() ? "segment" : name;
}

/// Finds or creates the run of an op that has a phase and a segment.
static Run &getRun(Operation *op, std::map<int64_t, Run> &runs) {
  Run &run = runs[*getRunOrder(op)];
  run.phase = op->getAttrOfType<PhaseAttr>(kPhaseMark).getValue();
  run.segment = op->getAttrOfType<IntegerAttr>(kSegmentMark).getInt();
  return run;
}

/// Adds cloneable ops to the last forward run if the function returns their results. If there is no
/// forward run, creates a run at the first such op.
static void addReturnedCloneables(Block &block, const DenseSet<Operation *> &cloneable,
                                  std::map<int64_t, Run> &runs) {
  Run *last = nullptr;
  for (auto &[order, run] : runs)
    if (run.phase == Phase::Forward || run.phase == Phase::Evaluate)
      last = &run;
  for (Value value : block.getTerminator()->getOperands()) {
    Operation *producer = value.getDefiningOp();
    if (!producer || !cloneable.contains(producer))
      continue;
    if (!last && getRunOrder(producer))
      last = &getRun(producer, runs);
    if (last && !llvm::is_contained(last->ops, producer))
      last->ops.push_back(producer);
  }
}

/// Checks that every input of a run is produced by an earlier run or by no run.
static LogicalResult checkOrder(const std::vector<Run> &runs) {
  DenseSet<Value> made;
  DenseSet<Operation *> all;
  for (const Run &run : runs)
    all.insert(run.ops.begin(), run.ops.end());
  for (const Run &run : runs) {
    for (Value input : run.inputs) {
      Operation *producer = input.getDefiningOp();
      if (producer && all.contains(producer) && !made.contains(input))
        return producer->emitOpError(
            "is in a later run than a user of its result; number segments in dataflow order");
    }
    made.insert(run.results.begin(), run.results.end());
  }
  return success();
}

/// Returns true if only `run` reads the results of `op`. Also checks the users of views of a
/// result, because each run that uses a view reads the result to build the view. Example: for
/// gather -> broadcast -> add, returns false if the add is in another run.
static bool isReadByRun(Operation *op, std::optional<int64_t> run) {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return getRunOrder(user) == run && (!isView(user) || isReadByRun(user, run));
  });
}

/// Returns true if `op` is the all-gather of a variable and only one run uses the result. Such an
/// all-gather is placed before the run instead of inside it, so that it can start earlier.
static bool isGatherForOneRun(Operation *op, const DenseSet<Operation *> &cloneable) {
  auto gather = dyn_cast<AllGatherOp>(op);
  Operation *read = gather ? gather.getOperand().getDefiningOp() : nullptr;
  return isa_and_nonnull<ReadOp>(read) && cloneable.contains(read) &&
         isReadByRun(op, getRunOrder(op));
}

FailureOr<Pieces> cutIntoSegments(func::FuncOp function) {
  Block &block = function.getBody().front();
  DenseSet<Operation *> cloneable = findCloneableOps(function);
  std::map<int64_t, Run> byOrder;
  std::map<int64_t, SmallVector<Operation *>> gathers; // all-gathers before runs
  for (Operation &op : block.without_terminator()) {
    if (cloneable.contains(&op))
      continue;
    auto order = getRunOrder(&op);
    if (!order)
      return op.emitOpError("has no phase or no segment; run ps-find-segments before partitioning");
    if (isGatherForOneRun(&op, cloneable)) {
      gathers[*order].push_back(&op);
      continue;
    }
    getRun(&op, byOrder).ops.push_back(&op);
  }
  addReturnedCloneables(block, cloneable, byOrder);
  Pieces pieces;
  std::map<int64_t, std::string> names; // a segment is named after its first run
  for (auto &[order, run] : byOrder) {
    auto [name, isNew] = names.try_emplace(*run.segment);
    if (isNew)
      name->second = nameRun(run.ops);
    run.name = name->second;
    for (Operation *gather : gathers[order])
      pieces.order.push_back({gather, unsigned(pieces.runs.size())});
    pieces.order.push_back({nullptr, unsigned(pieces.runs.size())});
    pieces.runs.push_back(std::move(run));
  }
  completeRuns(function, pieces.runs, cloneable);
  if (failed(checkOrder(pieces.runs)))
    return failure();
  return pieces;
}

Pieces cutCount(func::FuncOp function) {
  DenseSet<Operation *> cloneable = findCloneableOps(function);
  Pieces pieces;
  Run &run = pieces.runs.emplace_back();
  run.name = function.getName();
  for (Operation &op : function.getBody().front().without_terminator())
    if (!cloneable.contains(&op))
      run.ops.push_back(&op);
  pieces.order.push_back({nullptr, 0});
  completeRuns(function, pieces.runs, cloneable);
  return pieces;
}

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

namespace {
/// Encodes a run as a list of words (`getSignature`).
class Signer {
public:
  explicit Signer(const Run &run) : run(run) {}

  SmallVector<const void *> sign() {
    number(int64_t(run.phase));
    number(run.saved);
    for (Value input : run.inputs)
      define(input);
    for (Operation *op : run.ops)
      signOp(op);
    for (Value result : run.results)
      number(ids.lookup(result));
    return std::move(words);
  }

private:
  void pointer(const void *p) { words.push_back(p); }
  void number(int64_t n) { words.push_back(reinterpret_cast<const void *>(n)); }
  void define(Value value) {
    number(ids.try_emplace(value, ids.size()).first->second);
    pointer(value.getType().getAsOpaquePointer());
  }

  /// Returns true for attributes in which equal runs may differ, and for the phase, which is
  /// encoded once per run.
  static bool isIgnored(StringRef name) {
    return name == kSegmentMark || name == kOriginMark || name == kKeyMark || name == kPhaseMark ||
           name == "variable";
  }

  void signOp(Operation *op) {
    pointer(op->getName().getAsOpaquePointer());
    SmallVector<NamedAttribute> kept;
    for (NamedAttribute attr : op->getAttrs())
      if (!isIgnored(attr.getName()))
        kept.push_back(attr);
    number(kept.size());
    for (NamedAttribute attr : kept) {
      pointer(attr.getName().getAsOpaquePointer());
      pointer(attr.getValue().getAsOpaquePointer());
    }
    number(op->getNumOperands());
    for (Value operand : op->getOperands())
      number(ids.lookup(operand));
    if (FlatSymbolRefAttr variable = getVariable(op))
      number(llvm::find(run.variables, Attribute(variable)) - run.variables.begin());
    if (auto key = getRandomKey(op))
      number(llvm::find(run.keys, *key) - run.keys.begin());
    number(op->getNumResults());
    for (Value result : op->getResults())
      define(result);
  }

  const Run &run;
  DenseMap<Value, int64_t> ids;
  SmallVector<const void *> words;
};
} // namespace

SmallVector<const void *> getSignature(const Run &run) { return Signer(run).sign(); }

} // namespace parashard::partition
