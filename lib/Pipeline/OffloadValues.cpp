// Moves values that forward saves for backward to host memory and back.
#include "Offload.h"
#include "lib/IR/Collectives.h"
#include "lib/IR/OpTimes.h"
#include "lib/Schedules/Stashes.h"
#include "llvm/ADT/MapVector.h"
#include <numeric>

using namespace mlir;
using namespace parashard::ps;

namespace parashard::pipeline {

namespace {
//===--- times ------------------------------------------------------------===//

/// Estimates the seconds of a run: the sum over the kernels and library calls of its class
/// function.
class RunTimes {
public:
  RunTimes(const SymbolTable &symbols, const ir::OpTimes &times) : symbols(symbols), times(times) {}

  double get(rank::RunOp run) {
    auto [known, isNew] = seconds.try_emplace(run.getCalleeAttr());
    if (isNew)
      known->second = measure(symbols.lookup<func::FuncOp>(run.getCallee()));
    return known->second;
  }
  double getHostBandwidth() const { return times.getCluster().device.hostBandwidth; }

private:
  double measure(func::FuncOp function) const {
    double sum = 0;
    if (!function.isExternal())
      for (Operation &op : function.getBody().front())
        if (!ir::hasNoKernel(&op) && !ir::isCollective(&op))
          sum += times.getSeconds(&op);
    return sum;
  }

  const SymbolTable &symbols;
  const ir::OpTimes &times;
  DenseMap<Attribute, double> seconds; ///< by class function
};

//===--- one program ------------------------------------------------------===//

/// Values that are idle between the same two ops: the last op that uses them before backward, and
/// the first backward run that uses them. The values of a group are copied together.
struct Group {
  SmallVector<Value> values;
  int64_t bytes = 0;
  rank::StashOp stash;
  rank::UnstashOp unstash;
};

class ProgramOffload {
public:
  ProgramOffload(rank::ProgramOp program, const SymbolTable &symbols, RunTimes &times)
      : program(program), symbols(symbols), times(times), builder(program.getContext()) {
    int64_t section = 0;
    for (Operation &op : program.getBody().front()) {
      section += isa<rank::SectionOp>(op);
      numbers[&op] = ops.size();
      ops.push_back(&op);
      sections.push_back(section);
    }
  }

  bool run(double bytesPerSecond, bool onlyHidden) {
    schedules::StashProblem problem;
    problem.bytesPerSecond = bytesPerSecond;
    problem.onlyHidden = onlyHidden;
    problem.liveBytes.assign(ops.size() + 1, 0);
    for (Operation *op : ops) {
      auto run = dyn_cast<rank::RunOp>(op);
      problem.seconds.push_back(run ? times.get(run) : 0);
      for (OpResult result : op->getResults())
        if (isa<RankedTensorType>(result.getType()))
          recordValue(result, problem.liveBytes);
    }
    std::partial_sum(problem.liveBytes.begin(), problem.liveBytes.end(), problem.liveBytes.begin());
    for (auto &[between, group] : groups)
      problem.away.push_back({between.first, between.second, group.bytes});
    return move(schedules::chooseStashes(problem));
  }

private:
  using Between = std::pair<int64_t, int64_t>; ///< indices of ops

  std::optional<Phase> getPhase(Operation *op) const {
    auto run = dyn_cast<rank::RunOp>(op);
    auto phase =
        run ? symbols.lookup(run.getCallee())->getAttrOfType<PhaseAttr>(kPhaseMark) : PhaseAttr();
    return phase ? std::optional(phase.getValue()) : std::nullopt;
  }

  /// Returns the index of `op`; for an asynchronous op, the index of its wait.
  int64_t getEnd(Operation *op) const {
    int64_t end = numbers.lookup(op);
    if (op->getNumResults() > 0 && isa<rank::TokenType>(op->getResults().back().getType()))
      for (Operation *user : op->getResults().back().getUsers())
        end = std::max(end, numbers.lookup(user));
    return end;
  }

  void recordValue(OpResult value, std::vector<int64_t> &changes) {
    int64_t begin = numbers.lookup(value.getOwner()), end = getEnd(value.getOwner()),
            bytes = getByteSize(value.getType());
    for (Operation *user : value.getUsers())
      end = std::max(end, getEnd(user));
    changes[begin] += bytes;
    changes[end + 1] -= bytes;
    if (std::optional<Between> between = findBetween(value)) {
      groups[*between].values.push_back(value);
      groups[*between].bytes += bytes;
    }
  }

  /// Returns the two ops between which a value can be in host memory: its producer or last user
  /// before backward, and the first backward run that uses it. Returns nullopt unless the value is
  /// received or produced by a forward run. Also returns nullopt if it has a user in another
  /// section, or a user that is neither a run nor a send.
  std::optional<Between> findBetween(OpResult value) const {
    Operation *producer = value.getOwner();
    if (!isa<rank::RecvOp>(producer) && getPhase(producer) != Phase::Forward)
      return std::nullopt;
    Between between{getEnd(producer), ops.size()};
    for (Operation *user : value.getUsers()) {
      if (!isa<rank::RunOp, rank::SendOp>(user) ||
          sections[numbers.lookup(user)] != sections[numbers.lookup(producer)])
        return std::nullopt;
      if (isBackwardRun(user))
        between.second = std::min(between.second, numbers.lookup(user));
    }
    if (between.second == int64_t(ops.size()))
      return std::nullopt;
    for (Operation *user : value.getUsers())
      if (numbers.lookup(user) < between.second)
        between.first = std::max(between.first, getEnd(user));
    return between.first < between.second ? std::optional(between) : std::nullopt;
  }

  bool isBackwardRun(Operation *op) const {
    std::optional<Phase> phase = getPhase(op);
    return phase == Phase::BackwardInput || phase == Phase::BackwardWeight;
  }

  /// Inserts the stashes, unstashes and waits. Ops that are inserted before the same op have this
  /// order: waits for stashes, unstashes, waits for unstashes.
  bool move(ArrayRef<std::optional<schedules::StashPosition>> positions) {
    struct Move {
      Between between;
      schedules::StashPosition position;
      Group *group;
    };
    SmallVector<Move> moves;
    for (auto [entry, position] : llvm::zip_equal(groups, positions))
      if (position)
        moves.push_back({entry.first, *position, &entry.second});
    for (Move &move : moves)
      stash(*move.group, ops[move.between.first]);
    for (Move &move : moves)
      wait(move.group->stash, ops[move.position.gone]);
    llvm::stable_sort(
        moves, [](const Move &a, const Move &b) { return a.between.second < b.between.second; });
    for (Move &move : moves)
      unstash(*move.group, ops[move.position.fetch], move.between.second);
    for (Move &move : moves)
      wait(move.group->unstash, ops[move.between.second]);
    return !moves.empty();
  }

  void stash(Group &group, Operation *after) {
    builder.setInsertionPointAfter(after);
    group.stash =
        rank::StashOp::create(builder, after->getLoc(), ValueRange(group.values).getTypes(),
                              rank::TokenType::get(builder.getContext()), group.values);
  }

  /// Inserts the copy of a group back to the device before the op `before`. Ops with an index of
  /// `from` or more then use the copies on the device.
  void unstash(Group &group, Operation *before, int64_t from) {
    builder.setInsertionPoint(before);
    ResultRange held = group.stash.getResults();
    group.unstash =
        rank::UnstashOp::create(builder, before->getLoc(), held.getTypes(),
                                rank::TokenType::get(builder.getContext()), ValueRange(held));
    for (auto [value, again] : llvm::zip_equal(group.values, group.unstash.getResults()))
      value.replaceUsesWithIf(again, [&](OpOperand &use) {
        auto known = numbers.find(use.getOwner());
        return known != numbers.end() && known->second >= from;
      });
  }

  void wait(Operation *started, Operation *before) {
    builder.setInsertionPoint(before);
    rank::WaitOp::create(builder, started->getLoc(), started->getResults().back());
  }

  rank::ProgramOp program;
  const SymbolTable &symbols;
  RunTimes &times;
  OpBuilder builder;
  std::vector<Operation *> ops;
  std::vector<int64_t> sections; ///< number of the section, by op
  DenseMap<Operation *, int64_t> numbers;
  llvm::MapVector<Between, Group> groups;
};
} // namespace

bool offloadValues(ModuleOp module, const costs::Cluster &cluster, bool onlyHidden) {
  SymbolTable symbols(module);
  ir::OpTimes opTimes(cluster, getMesh(module));
  RunTimes times(symbols, opTimes);
  bool any = false;
  for (auto program : module.getOps<rank::ProgramOp>())
    any |= ProgramOffload(program, symbols, times).run(times.getHostBandwidth(), onlyHidden);
  return any;
}

} // namespace parashard::pipeline
