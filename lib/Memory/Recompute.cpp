// The pass that computes forward values again where backward needs them, instead of keeping them.
#include "dialects/rank/Rank.h"
#include "lib/Partition/Cloneable.h"
#include "lib/Partition/ModulePath.h"
#include "lib/Partition/Stages.h"
#include "lib/Pipeline/Layers.h"
#include "lib/Sharding/OpSharding.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "parashard/Globs.h"
#include "parashard/NearestNames.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace parashard {

#define GEN_PASS_DECL_RECOMPUTEPASS
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "lib/Memory/Passes.h.inc"

namespace {
using namespace ps;

/// Which forward ops may run again.
struct Choice {
  enum class Kind { Selective, Full, Modules };
  Kind kind = Kind::Full;
  bool repeatsCommunication = false; ///< also those that move data between ranks
  SmallVector<std::string> globs;    ///< of module paths
};

bool matchesModule(StringRef path, StringRef glob) {
  for (; !path.empty(); path = path.rsplit('.').first) {
    if (matchesGlob(glob, path))
      return true;
    if (!path.contains('.'))
      return false;
  }
  return false;
}

bool isForward(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return phase && phase.getValue() == Phase::Forward;
}

class Recomputer {
public:
  Recomputer(func::FuncOp function, const Choice &choice)
      : choice(choice), mesh(getMesh(function->getParentOfType<ModuleOp>())),
        cloneable(findCloneableOps(function)) {
    for (Operation &op : function.getBody().front().without_terminator()) {
      std::optional<int64_t> segment = getSegment(&op);
      if (!segment || cloneable.contains(&op))
        continue;
      Segment &of = segments[*segment];
      if (isForward(&op))
        of.forward.push_back(&op);
      else if (isBackward(&op) && !of.firstBackward)
        of.firstBackward = &op;
    }
  }

  void run() {
    for (auto &[number, segment] : segments) {
      // The backward of the last layers follows their forward: nothing of theirs is kept for long.
      bool isLast = number + 1 == int64_t(segments.size());
      if (!segment.firstBackward || (choice.kind == Choice::Kind::Full && isLast))
        continue;
      choose(number, segment);
      for (Value value : llvm::to_vector(dropped))
        replace(number, segment, value);
    }
  }

private:
  struct Segment {
    SmallVector<Operation *> forward;
    Operation *firstBackward = nullptr; ///< all others stand behind it
  };

  static bool isUsedAgain(OpOperand &use, int64_t segment) {
    Operation *user = use.getOwner();
    return isBackward(user) && !user->hasAttr(kRecomputedMark) && getSegment(user) == segment;
  }

  /// Whether the op can run again, and the choice is for it.
  bool mayRun(Operation *op) const {
    if (!isPure(op) || op->getNumRegions() || (!choice.repeatsCommunication && moves(op)))
      return false;
    switch (choice.kind) {
    case Choice::Kind::Full:
      return true;
    case Choice::Kind::Selective:
      return isCheap(op);
    case Choice::Kind::Modules: {
      std::optional<StringRef> path = getModulePath(op->getLoc());
      return path && llvm::any_of(choice.globs, [&](const std::string &glob) {
               return matchesModule(*path, glob);
             });
    }
    }
    llvm_unreachable("all kinds are handled");
  }

  /// No contraction: it costs about as much as reading its operands.
  static bool isCheap(Operation *op) {
    auto lowering = dyn_cast<LoweringOpInterface>(op);
    if (!lowering || lowering.getLoweringKind() == LoweringKind::Library ||
        lowering.getLoweringKind() == LoweringKind::Collective)
      return false;
    auto priced = dyn_cast<CostOpInterface>(op);
    return !priced ||
           priced.getCost(op->getOperandTypes(), op->getResultTypes()).contractionFlops == 0;
  }

  /// Whether running it moves data between ranks that are not moved anyway: what it yields is
  /// reduced or laid out otherwise, or its operands are. A share of what is whole is only cut out.
  bool moves(Operation *op) const {
    if (!isa<ShardingOpInterface>(op) || isReplicated(op, mesh))
      return false;
    OpSharding runs = computeOpSharding(op, mesh);
    auto differs = [&](ShardingAttr has, ShardingAttr wanted, Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type || mesh.isReplicated(has))
        return false;
      return simplify(has, type.getShape(), mesh) !=
             simplify(wanted ? wanted : mesh.getReplicated(type.getRank()), type.getShape(), mesh);
    };
    for (auto [operand, needed] : llvm::zip(op->getOperands(), runs.operands))
      if (!isGathered(operand) && differs(getSharding(operand), needed, operand) &&
          !isMovedAgain(operand, needed, getSegment(op)))
        return true;
    for (auto [result, raw] : llvm::zip(op->getResults(), runs.results))
      if (differs(raw, getSharding(result), result))
        return true;
    return false;
  }

  /// Whether backward lays it out so, as for the gradient of a weight: it is moved once for all.
  bool isMovedAgain(Value value, ShardingAttr needed, std::optional<int64_t> segment) const {
    return segment && llvm::any_of(value.getUses(), [&](OpOperand &use) {
             return isUsedAgain(use, *segment) && isa<ShardingOpInterface>(use.getOwner()) &&
                    computeOpSharding(use.getOwner(), mesh).operands[use.getOperandNumber()] ==
                        needed;
           });
  }

  /// Parameters are gathered by each run for itself, whatever runs.
  bool isGathered(Value value) const {
    Operation *producer = value.getDefiningOp();
    return producer && cloneable.contains(producer);
  }

  /// What backward of the segment uses and need not be kept.
  void choose(int64_t number, Segment &segment) {
    dropped.clear();
    runnable.clear();
    copies.clear();
    own = DenseSet<Operation *>(segment.forward.begin(), segment.forward.end());
    for (Operation *op : segment.forward) {
      if (!mayRun(op))
        continue;
      // What stays is a start: from nothing that is not there anyway, where it shall be cheap.
      bool fromKept = llvm::all_of(op->getOperands(), [&](Value operand) {
        Operation *producer = operand.getDefiningOp();
        return !producer || !own.contains(producer) || runnable.contains(producer) ||
               isKept(operand, number);
      });
      if (choice.kind == Choice::Kind::Selective && !fromKept)
        continue;
      runnable.insert(op);
      for (Value result : op->getResults())
        if (isKept(result, number) && !(choice.kind == Choice::Kind::Selective && isSmall(result)))
          dropped.insert(result);
    }
  }

  /// One number a row, such as a norm's: keeping it is cheaper than the row that it is made of.
  static bool isSmall(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    Operation *op = value.getDefiningOp();
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      auto from = dyn_cast<RankedTensorType>(operand.getType());
      return from && getByteSize(type) * 8 <= getByteSize(from);
    });
  }

  static bool isKept(Value value, int64_t segment) {
    return llvm::any_of(value.getUses(), [&](OpOperand &use) { return isUsedAgain(use, segment); });
  }

  void replace(int64_t number, Segment &segment, Value value) {
    auto result = cast<OpResult>(value);
    Value again = copy(segment, result.getOwner())->getResult(result.getResultNumber());
    value.replaceUsesWithIf(again, [&](OpOperand &use) { return isUsedAgain(use, number); });
  }

  /// The op once more, before the segment's backward, with what it needs of its own segment.
  Operation *copy(Segment &segment, Operation *op) {
    if (Operation *known = copies.lookup(op))
      return known;
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      bool runsToo = producer && runnable.contains(producer) && !staysKept(operand);
      if (runsToo)
        mapping.map(operand,
                    copy(segment, producer)->getResult(cast<OpResult>(operand).getResultNumber()));
    }
    OpBuilder builder(segment.firstBackward);
    Operation *made = builder.clone(*op, mapping);
    made->setAttr(kPhaseMark, PhaseAttr::get(op->getContext(), Phase::BackwardInput));
    made->setAttr(kRecomputedMark, builder.getUnitAttr());
    copies[op] = made;
    return made;
  }

  /// Used by backward as it is, so it is there.
  bool staysKept(Value value) const {
    std::optional<int64_t> segment = getSegment(value.getDefiningOp());
    return segment && !dropped.contains(value) && isKept(value, *segment);
  }

  const Choice &choice;
  MeshShape mesh;
  DenseSet<Operation *> cloneable;
  std::map<int64_t, Segment> segments;
  // Of the segment in work.
  DenseSet<Operation *> own;      ///< its forward ops
  DenseSet<Operation *> runnable; ///< those that can run again
  llvm::SetVector<Value> dropped; ///< in order
  DenseMap<Operation *, Operation *> copies;
};

struct RecomputePass : impl::RecomputePassBase<RecomputePass> {
  using RecomputePassBase::RecomputePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto function = module.lookupSymbol<func::FuncOp>("micro_batch");
    if (mode == "none" || !function)
      return;
    Choice choice;
    if (failed(parse(choice)) || failed(checkGlobs(function, choice)))
      return signalPassFailure();
    Recomputer(function, choice).run();
    if (Stages stages = getStages(module); stages.getCount() > 1)
      setStageCosts(module, addUpStages(findLayers(function), stages));
  }

private:
  LogicalResult parse(Choice &choice) {
    StringRef text = mode;
    choice.repeatsCommunication = text == "full+communication";
    if (text == "full" || choice.repeatsCommunication)
      return success();
    if (text == "selective") {
      choice.kind = Choice::Kind::Selective;
      return success();
    }
    if (!text.consume_front("modules=") || text.empty())
      return getOperation().emitError()
             << "recompute is none, selective, full, full+communication or modules=GLOB,..., not '"
             << mode << "'";
    choice.kind = Choice::Kind::Modules;
    SmallVector<StringRef> globs;
    text.split(globs, ',');
    for (StringRef glob : globs)
      choice.globs.push_back(glob.str());
    return success();
  }

  /// Each glob matches some module.
  LogicalResult checkGlobs(func::FuncOp function, const Choice &choice) {
    llvm::SetVector<StringRef> paths;
    for (Operation &op : function.getBody().front())
      if (std::optional<StringRef> path = getModulePath(op.getLoc()); path && !path->empty())
        paths.insert(*path);
    for (const std::string &glob : choice.globs)
      if (llvm::none_of(paths, [&](StringRef path) { return matchesModule(path, glob); })) {
        std::vector<std::string> names;
        for (StringRef path : paths)
          names.push_back(path.str());
        return getOperation().emitError()
               << "--recompute modules=" << glob << " matches no module of the model"
               << describeNearest(glob, names);
      }
    return success();
  }
};
} // namespace

} // namespace parashard
