// Implements ps-start-collectives: overlaps collectives of class functions with ops that do not
// depend on them.
#include "AsyncCollectives.h"
#include "ClassBuffers.h"
#include "Fused.h"
#include "IterationSpace.h"
#include "OverlapCost.h"
#include "dialects/rank/Rank.h"
#include "mlir/Pass/Pass.h"
#include "parashard/Fusion.h"

namespace parashard::fusion {
#define GEN_PASS_DEF_STARTCOLLECTIVESPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace parashard::fusion

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

namespace {

/// Returns true for ops that run no code: views, variable accesses, constants and terminators.
bool hasNoKernel(Operation *op) {
  return isView(op) || isa<ps::ReadOp, ps::WriteOp, ps::AccumulateOp>(op) ||
         op->hasTrait<OpTrait::ConstantLike>() || op->hasTrait<OpTrait::IsTerminator>();
}

bool isNarrow(Value value) {
  return getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() <= 16;
}

/// Estimates the seconds of ops by the cost interface.
class OpTimes {
public:
  OpTimes(const MachineFigures &machine, ps::MeshOp mesh) : machine(machine), mesh(mesh) {}

  double getTime(Operation *op) const {
    if (hasNoKernel(op) || movesData(op))
      return 0;
    double bytes = 0;
    for (Type type : op->getOperandTypes())
      bytes += isa<RankedTensorType>(type) ? double(ps::getByteSize(type)) : 0;
    for (Type type : op->getResultTypes())
      bytes += double(ps::getByteSize(type));
    return std::max(bytes / machine.memory, getComputeTime(op));
  }

  /// Returns the seconds in which one rank sends the bytes of a ring algorithm, without latency.
  /// Example: an all_reduce of 8 MB over 4 ranks sends 2 * 8 * 3 / 4 = 12 MB.
  double getTransferTime(Operation *collective) const {
    double members = double(countMembers(collective));
    auto bytesOf = [](Value value) { return double(ps::getByteSize(value.getType())); };
    double whole = std::max(bytesOf(collective->getOperand(0)), bytesOf(collective->getResult(0)));
    double times = isa<ps::AllReduceOp>(collective) ? 2 : 1;
    return times * whole * (members - 1) / members / machine.link;
  }

  int64_t countMembers(Operation *collective) const {
    int64_t members = 1;
    for (auto axis : collective->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>())
      members *= mesh ? std::max<int64_t>(1, ps::MeshOp(mesh).getAxisSize(axis)) : 1;
    return members;
  }

private:
  double getComputeTime(Operation *op) const {
    auto priced = dyn_cast<ps::CostOpInterface>(op);
    if (!priced || op->getNumOperands() == 0)
      return 0;
    ps::OpCost cost = priced.getCost(op->getOperandTypes(), op->getResultTypes());
    return double(cost.contractionFlops) /
           (isNarrow(op->getOperand(0)) ? machine.narrowFlops : machine.flops);
  }

  const MachineFigures &machine;
  ps::MeshOp mesh;
};

/// Rearranges one class function.
class CollectiveStarter {
public:
  CollectiveStarter(func::FuncOp function, const MachineFigures &machine, const OpTimes &times,
                    int64_t forced)
      : block(function.getBody().front()), machine(machine), times(times), forced(forced) {}

  void run() {
    // A write in place must stay after all readers of its variable, so no op moves.
    isFixed = !block.getOps<ps::WriteOp>().empty();
    SmallVector<Operation *> collectives;
    for (Operation &op : block)
      if (canStart(&op))
        collectives.push_back(&op);
    for (Operation *collective : collectives)
      fill(collective);
    for (Operation *collective : collectives)
      start(collective);
  }

private:
  bool canStart(Operation *op) const {
    if (!movesData(op) || op->use_empty() || getWait(op) || times.countMembers(op) == 1)
      return false;
    // The sent value must not change before the wait.
    return !isFixed || !getRoot(op->getOperand(0)).getDefiningOp<ps::ReadOp>();
  }

  Operation *getFirstUser(Operation *collective) const {
    return findFirstUser(collective->getResult(0));
  }

  /// Returns the seconds of the ops between a collective and the first use of its result.
  double getTimeBetween(Operation *collective) const {
    double time = 0;
    Operation *user = getFirstUser(collective);
    for (Operation *op = collective->getNextNode(); op && op != user; op = op->getNextNode())
      time += times.getTime(op);
    return time;
  }

  /// Moves independent matmuls between a collective and its first use until their time covers the
  /// transfer.
  void fill(Operation *collective) {
    Operation *user = getFirstUser(collective);
    if (isFixed || !user || !isWorthStarting())
      return;
    double missing =
        times.getTransferTime(collective) + machine.latency - getTimeBetween(collective);
    for (Operation *op = collective->getPrevNode(), *next; op && missing > 0; op = next) {
      next = op->getPrevNode();
      if (movesData(op) || usesAwaited(op, op))
        break; // earlier ops overlap with that collective
      if (isa<ps::ContractOp>(op) && moveAfter(op, collective))
        missing -= times.getTime(op);
    }
    for (Operation *op = user->getNextNode(), *next; op && missing > 0; op = next) {
      next = op->getNextNode();
      if (movesData(op))
        break;
      if (isa<ps::ContractOp>(op) && moveBefore(op, user))
        missing -= times.getTime(op);
    }
  }

  /// Collects `op`, and the views and accumulations of its result. Returns false if another op at
  /// or before `position` uses the result.
  bool collectFollowers(Operation *op, Operation *position,
                        SmallVectorImpl<Operation *> &group) const {
    group.push_back(op);
    for (Operation *user : op->getUsers()) {
      if (position->isBeforeInBlock(user) || llvm::is_contained(group, user))
        continue;
      bool isFollower = isView(user) || isa<ps::AccumulateOp>(user);
      if (user == position || !isFollower || !collectFollowers(user, position, group))
        return false;
    }
    return true;
  }

  bool moveAfter(Operation *op, Operation *collective) const {
    SmallVector<Operation *> group;
    if (!collectFollowers(op, collective, group))
      return false;
    llvm::sort(group, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *member : llvm::reverse(group))
      member->moveAfter(collective);
    return true;
  }

  /// Collects `op` and the views after `position` that it reads through. Returns false if `op`
  /// depends on other ops there, or on the op at `position`.
  bool collectViews(Operation *op, Operation *position, SmallVectorImpl<Operation *> &group) const {
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer || producer->isBeforeInBlock(position) || llvm::is_contained(group, producer))
        continue;
      if (!isView(producer) || !collectViews(producer, position, group))
        return false;
    }
    group.push_back(op);
    return true;
  }

  /// Moves `op` and the views that it reads before `user`. Returns false if `op` depends on `user`
  /// or on another op after it. Also returns false if `op` would become the first user of the
  /// collective that `user` waits for.
  bool moveBefore(Operation *op, Operation *user) const {
    SmallVector<Operation *> group;
    if (!collectViews(op, user, group) || usesAwaited(group, user))
      return false;
    for (Operation *member : group)
      member->moveBefore(user);
    return true;
  }

  /// Returns true if an op reads, through views, the result of a collective whose first user is
  /// `user`.
  static bool usesAwaited(ArrayRef<Operation *> ops, Operation *user) {
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (Operation *producer = getRoot(operand).getDefiningOp();
            producer && movesData(producer) && findFirstUser(producer->getResult(0)) == user)
          return true;
    return false;
  }

  int64_t chooseChunkCount(Operation *collective) const {
    std::optional<ChunkedMatmul> matmul = findChunkedMatmul(collective);
    if (!matmul || isFixed || getChunkedCollective(matmul->contract))
      return 1;
    if (forced > 0)
      return matmul->size % forced == 0 ? forced : 1;
    OverlapCase overlap{times.getTime(matmul->contract),
                        matmul->form.batch[0] * matmul->form.batch[1] * matmul->form.m,
                        times.getTransferTime(collective), getTimeBetween(collective)};
    return chooseChunks(machine, overlap, matmul->size);
  }

  /// Returns true if starting pays off: some op computes before the first use.
  bool hasWorkBetween(Operation *collective) const {
    return isWorthStarting() && getTimeBetween(collective) > 0;
  }
  /// Returns true if a collective that starts early can overlap with computation, or if early
  /// starts are forced.
  bool isWorthStarting() const { return forced > 0 || machine.overlap > 0; }

  void start(Operation *collective) {
    Operation *user = getFirstUser(collective);
    int64_t chunks = user ? chooseChunkCount(collective) : 1;
    if (!user || (chunks == 1 && !hasWorkBetween(collective)))
      return;
    SmallVector<Operation *> views;
    collectViewsBefore(collective, user, views);
    OpBuilder b(user);
    Value result = collective->getResult(0);
    auto wait = ps::WaitOp::create(b, collective->getLoc(), result.getType(), result);
    ps::copyMarks(collective, wait);
    result.replaceAllUsesExcept(wait.getResult(), wait);
    llvm::sort(views, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *view : views)
      view->moveBefore(user);
    if (chunks > 1)
      collective->setAttr(kChunksMark, b.getI64IntegerAttr(chunks));
  }

  static void collectViewsBefore(Operation *of, Operation *position,
                                 SmallVectorImpl<Operation *> &views) {
    for (Operation *user : of->getUsers())
      if (isView(user) && user->isBeforeInBlock(position) && !llvm::is_contained(views, user)) {
        views.push_back(user);
        collectViewsBefore(user, position, views);
      }
  }

  Block &block;
  const MachineFigures &machine;
  const OpTimes &times;
  int64_t forced;
  bool isFixed = false;
};

struct StartCollectivesPass : fusion::impl::StartCollectivesPassBase<StartCollectivesPass> {
  using StartCollectivesPassBase::StartCollectivesPassBase;
  void runOnOperation() override {
    if (chunks < 0) {
      getOperation().emitError() << "chunks=" << chunks
                                 << "; expected a positive number of chunks, or 0 (the cost model "
                                    "chooses the number)";
      return signalPassFailure();
    }
    MachineFigures machine = findMachine(target);
    OpTimes times(machine, ps::getMesh(getOperation()));
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock() &&
          function->hasAttr(kClassMark))
        CollectiveStarter(function, machine, times, chunks).run();
  }
};
} // namespace
