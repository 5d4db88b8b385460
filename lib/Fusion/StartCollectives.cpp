// Implements ps-start-collectives: overlaps collectives of class functions with ops that do not
// depend on them.
#include "AsyncCollectives.h"
#include "ClassBuffers.h"
#include "Fused.h"
#include "IterationSpace.h"
#include "OverlapCost.h"
#include "dialects/rank/Rank.h"
#include "lib/IR/Collectives.h"
#include "lib/IR/OpTimes.h"
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

/// Rearranges one class function.
class CollectiveStarter {
public:
  CollectiveStarter(func::FuncOp function, const ir::OpTimes &times, int64_t forced)
      : block(function.getBody().front()), times(times), forced(forced) {}

  void run() {
    // A write in place must stay after all readers of its variable. In a function with such a
    // write, the pass therefore neither moves nor splits matmuls. It still starts collectives
    // early, and moves views of their results to the wait.
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
    if (!ir::isCollective(op) || op->use_empty() || getWait(op) || isAlone(op))
      return false;
    // The sent value must not change before the wait.
    return !isFixed || !getRoot(op->getOperand(0)).getDefiningOp<ps::ReadOp>();
  }

  /// Returns true if a collective has a single member.
  bool isAlone(Operation *collective) const {
    auto axes =
        llvm::to_vector(collective->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>());
    return times.getGroup(axes).empty();
  }

  /// Returns the seconds of an op; 0 for ops without a kernel, and for collectives.
  double getTime(Operation *op) const {
    return ir::hasNoKernel(op) || ir::isCollective(op) ? 0 : times.getSeconds(op);
  }

  Operation *getFirstUser(Operation *collective) const {
    return findFirstUser(collective->getResult(0));
  }

  /// Returns the seconds of the ops between a collective and the first use of its result.
  double getTimeBetween(Operation *collective) const {
    double time = 0;
    Operation *user = getFirstUser(collective);
    for (Operation *op = collective->getNextNode(); op && op != user; op = op->getNextNode())
      time += getTime(op);
    return time;
  }

  /// Moves independent matmuls between a collective and the first use of its result, until the ops
  /// in between take at least as long as the collective.
  void fill(Operation *collective) {
    Operation *user = getFirstUser(collective);
    if (isFixed || !user || !isWorthStarting())
      return;
    double missing = times.getCollectiveSeconds(collective) - getTimeBetween(collective);
    for (Operation *op = collective->getPrevNode(), *next; op && missing > 0; op = next) {
      next = op->getPrevNode();
      // Ops before the first use of another collective's result overlap with that collective, so
      // they stay in place. The search also stops at another collective.
      if (ir::isCollective(op) || usesAwaited(op, op))
        break;
      if (isa<ps::ContractOp>(op) && moveAfter(op, collective))
        missing -= getTime(op);
    }
    for (Operation *op = user->getNextNode(), *next; op && missing > 0; op = next) {
      next = op->getNextNode();
      if (ir::isCollective(op))
        break;
      if (isa<ps::ContractOp>(op) && moveBefore(op, user))
        missing -= getTime(op);
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
  /// depends on another op after `position`, or on the op at `position`.
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

  /// Moves `op` to the position before `user`, with the views after `user` through which `op`
  /// reads. Returns false if `op` depends on `user`, or on another op after `user`. Also returns
  /// false if `op` would become the first user of the collective that `user` waits for.
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
            producer && ir::isCollective(producer) && findFirstUser(producer->getResult(0)) == user)
          return true;
    return false;
  }

  int64_t chooseChunkCount(Operation *collective) const {
    std::optional<ChunkedMatmul> matmul = findChunkedMatmul(collective);
    if (!matmul || isFixed || getChunkedCollective(matmul->contract))
      return 1;
    if (forced > 0)
      return matmul->size % forced == 0 ? forced : 1;
    costs::Call whole = times.getCall(matmul->contract);
    auto matmulChunk = [&](int64_t count) {
      costs::Call chunk = whole;
      chunk.flops /= double(count), chunk.bytes /= double(count);
      const costs::Device &device = times.getCluster().device;
      return costs::getSeconds(device, chunk) + costs::getLaunchSeconds(device, chunk);
    };
    auto collectiveChunk = [&](int64_t count) {
      return times.getCollectiveSeconds(collective, count);
    };
    return chooseChunks({matmulChunk, collectiveChunk, getTimeBetween(collective),
                         times.getCluster().getOverlapShare()},
                        matmul->size);
  }

  /// Returns true if an early start pays off: some op computes between the collective and the first
  /// use of its result.
  bool hasWorkBetween(Operation *collective) const {
    return isWorthStarting() && getTimeBetween(collective) > 0;
  }
  /// Returns true if a collective that starts early can overlap with computation, or if early
  /// starts are forced.
  bool isWorthStarting() const { return forced > 0 || times.getCluster().getOverlapShare() > 0; }

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
  const ir::OpTimes &times;
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
    FailureOr<costs::Cluster> found = ir::findCluster(getOperation());
    if (failed(found))
      return signalPassFailure();
    ir::OpTimes times(*found, ps::getMesh(getOperation()));
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock() &&
          function->hasAttr(kClassMark))
        CollectiveStarter(function, times, chunks).run();
  }
};
} // namespace
