// Cuts @update into what all parameters share and each parameter's own part.
#include "lib/Partition/Cloneable.h"
#include "lib/Partition/Runs.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace parashard::ps {

namespace {
class UpdateCutter {
public:
  explicit UpdateCutter(func::FuncOp function)
      : function(function), symbols(function->getParentOfType<ModuleOp>()),
        cloneable(findCloneableOps(function)) {}

  Pieces cut() {
    findOwners();
    Pieces pieces;
    llvm::MapVector<Attribute, Run> runs;
    runs[Attribute()].name = "scalars";
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (cloneable.contains(&op))
        continue;
      if (between.contains(&op))
        pieces.order.push_back({&op});
      else
        runs[owners.lookup(&op)].ops.push_back(&op);
    }
    for (auto &[owner, run] : runs) {
      if (run.ops.empty())
        continue;
      run.phase = Phase::Update;
      if (owner)
        run.name = "parameter";
      pieces.order.push_back({nullptr, unsigned(pieces.runs.size())});
      pieces.runs.push_back(std::move(run));
    }
    completeRuns(function, pieces.runs, cloneable);
    return pieces;
  }

private:
  /// The variable that a variable belongs to in the end.
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

  /// A collective on what is read stands between runs.
  bool isBetween(Operation *op) const {
    if (!isa<AllReduceOp, ReduceScatterOp, AllGatherOp>(op))
      return false;
    Operation *producer = op->getOperand(0).getDefiningOp();
    return producer && cloneable.contains(producer);
  }

  /// Each op belongs to the parameter that alone needs it (null: to none alone).
  void findOwners() {
    for (Operation &op : llvm::reverse(function.getBody().front().without_terminator())) {
      if (cloneable.contains(&op))
        continue;
      if (isBetween(&op)) {
        between.insert(&op);
        continue;
      }
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
  DenseSet<Operation *> cloneable;
  DenseSet<Operation *> between;
  DenseMap<Operation *, Attribute> owners;
};
} // namespace

FailureOr<Pieces> cutUpdate(func::FuncOp function) { return UpdateCutter(function).cut(); }

} // namespace parashard::ps
