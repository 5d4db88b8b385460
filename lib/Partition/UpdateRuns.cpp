// Cuts @update into waves of collectives, shared ops and conversions of gradients, followed by each
// parameter's own part.
#include "lib/IR/Cloneable.h"
#include "lib/IR/Stages.h"
#include "lib/Partition/Runs.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::partition {

namespace {
class UpdateCutter {
public:
  explicit UpdateCutter(func::FuncOp function)
      : function(function), symbols(function->getParentOfType<ModuleOp>()),
        pipeline(getPipelineAxis(function->getParentOfType<ModuleOp>())),
        cloneable(findCloneableOps(function)) {}

  Pieces cut() {
    keepReduced();
    findBetween();
    findOwners();
    std::vector<Wave> waves;
    llvm::MapVector<Attribute, Run> parameters;
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (cloneable.contains(&op))
        continue;
      int64_t wave = waveOf.lookup(&op);
      if (wave >= int64_t(waves.size()))
        waves.resize(wave + 1);
      if (between.contains(&op))
        waves[wave].between.push_back(&op);
      else if (narrowed.contains(&op))
        waves[wave].narrowed[owners.lookup(&op)].ops.push_back(&op);
      else if (Attribute owner = owners.lookup(&op))
        parameters[owner].ops.push_back(&op);
      else
        waves[wave].shared.ops.push_back(&op);
    }
    for (Wave &wave : waves) {
      for (Operation *op : wave.between)
        pieces.order.push_back({op});
      add(wave.shared, "scalars");
      for (auto &[owner, run] : wave.narrowed)
        add(run, "gradient");
    }
    for (auto &[owner, run] : parameters)
      add(run, "parameter");
    completeRuns(function, pieces.runs, cloneable);
    return std::move(pieces);
  }

private:
  /// One wave of the update, in execution order: collectives that do not depend on the other ops of
  /// the wave, the ops that parameters share, and the conversions of gradients that the next wave
  /// reduces.
  struct Wave {
    SmallVector<Operation *> between;
    Run shared;
    llvm::MapVector<Attribute, Run> narrowed;
  };

  void add(Run &run, StringRef name) {
    if (run.ops.empty())
      return;
    run.phase = Phase::Update;
    run.name = name.str();
    pieces.order.push_back({nullptr, unsigned(pieces.runs.size())});
    pieces.runs.push_back(std::move(run));
  }

  /// Follows the `of` attributes from a variable and returns the last variable.
  Attribute getRoot(FlatSymbolRefAttr symbol) {
    while (auto variable = symbols.lookup<VariableOp>(symbol.getValue())) {
      if (!variable.getOfAttr())
        break;
      symbol = variable.getOfAttr();
    }
    return symbol;
  }

  static bool isScalar(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return !type || type.getRank() == 0;
  }

  static bool isCollective(Operation *op) {
    return isa<AllReduceOp, ReduceScatterOp, AllGatherOp>(op);
  }

  /// Returns true for a collective that is placed between runs: any collective over the pipeline
  /// axis, and any whose operand is a read, a narrowed gradient or the result of another collective
  /// between runs.
  bool isBetween(Operation *op) const {
    Operation *producer = isCollective(op) ? op->getOperand(0).getDefiningOp() : nullptr;
    return producer && (isa<ReadOp>(producer) || between.contains(producer) ||
                        narrowed.contains(producer) || isOverPipeline(op));
  }

  bool isOverPipeline(Operation *op) const {
    return pipeline && llvm::is_contained(op->getAttrOfType<ArrayAttr>("axes"), pipeline);
  }

  /// Removes from `cloneable` the ops whose results a collective between runs reads, because runs
  /// must compute these results. There are two kinds: conversions of gradients, and producers of
  /// values that are reduced over the pipeline axis. The second kind can be in `cloneable`: on a
  /// coordinate that contributes only zeros, the producer is a constant. A `ps.read` stays
  /// cloneable.
  void keepReduced() {
    for (auto convert : function.getOps<ConvertOp>())
      if (convert.getOperand().getDefiningOp<ReadOp>() && !convert.use_empty() &&
          llvm::all_of(convert->getUsers(), isCollective)) {
        cloneable.erase(convert);
        narrowed.insert(convert);
      }
    for (auto reduce : function.getOps<AllReduceOp>())
      if (Operation *producer = reduce.getOperand().getDefiningOp();
          producer && isOverPipeline(reduce) && !isa<ReadOp>(producer))
        cloneable.erase(producer);
  }

  /// Finds the collectives between runs, and the wave of each op. A collective whose operand is the
  /// result of a run belongs to the wave after that run. Collectives over the pipeline axis keep
  /// their order, because the order must be the same on all coordinates.
  void findBetween() {
    int64_t last = 0;
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (cloneable.contains(&op))
        continue;
      int64_t wave = 0;
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp();
            producer && !cloneable.contains(producer))
          wave = std::max(wave, waveOf.lookup(producer));
      if (isBetween(&op)) {
        between.insert(&op);
        Operation *producer = op.getOperand(0).getDefiningOp();
        wave += !isa<ReadOp>(producer) && !between.contains(producer);
        if (isOverPipeline(&op))
          last = wave = std::max(wave, last);
      }
      waveOf[&op] = wave;
    }
  }

  /// Finds for each op the parameter whose update contains the op. Shared ops and collectives
  /// belong to no parameter.
  void findOwners() {
    for (Operation &op : llvm::reverse(function.getBody().front().without_terminator())) {
      if (cloneable.contains(&op))
        continue;
      if (narrowed.contains(&op))
        owners[&op] = getRoot(op.getOperand(0).getDefiningOp<ReadOp>().getVariableAttr());
      else if (!between.contains(&op))
        owners[&op] = getOwner(&op);
    }
  }

  Attribute getOwner(Operation *op) {
    bool allScalar =
        llvm::all_of(op->getOperands(), isScalar) && llvm::all_of(op->getResults(), isScalar);
    if (allScalar)
      return {};
    if (auto write = dyn_cast<WriteOp>(op))
      return getRoot(write.getVariableAttr());
    std::optional<Attribute> owner;
    for (Operation *user : op->getUsers()) {
      Attribute ofUser = owners.lookup(user);
      if (owner && *owner != ofUser)
        return {};
      owner = ofUser;
    }
    return owner.value_or(Attribute());
  }

  func::FuncOp function;
  SymbolTable symbols;
  StringAttr pipeline; ///< pipeline axis of the mesh; null if none
  Pieces pieces;
  DenseSet<Operation *> cloneable;
  DenseSet<Operation *> between;
  DenseSet<Operation *> narrowed; ///< conversions of gradients for collectives
  DenseMap<Operation *, int64_t> waveOf;
  DenseMap<Operation *, Attribute> owners;
};
} // namespace

FailureOr<Pieces> cutUpdate(func::FuncOp function) { return UpdateCutter(function).cut(); }

} // namespace parashard::partition
