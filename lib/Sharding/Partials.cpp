// Decides which values stay partial, and where they are reduced.
#include "lib/Sharding/Propagation.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

namespace {
/// Chooses the values that stay partial over one axis, for one reduction kind. Repeats two steps:
/// computes `kept` (the values that would stay partial), and adds values to `reduced` (the values
/// that their producers reduce). The loop ends because `reduced` only grows.
class AxisChooser {
public:
  AxisChooser(ShardingGraph &graph, StringAttr axis, ReductionKind kind,
              ArrayRef<const OpSharding *> raw)
      : graph(graph), axis(axis), kind(kind), generated(graph.nodes.size()),
        passes(graph.edges.size()), kept(graph.nodes.size()), reduced(graph.nodes.size()),
        cost(graph.nodes.size()) {
    for (auto [i, edge] : llvm::enumerate(graph.edges)) {
      if (edge.kind == ShardingEdge::Kind::Read && !edge.isInUpdate())
        reduced.set(edge.operands[0]); // reduce once, at the accumulation, instead of at each read
      if (edge.kind != ShardingEdge::Kind::Op)
        continue;
      for (auto [result, sharding] : llvm::zip(edge.results, raw[i]->results))
        if (result >= 0 && isPartial(sharding.getPartial()))
          generated.set(result);
      passes[i] = kind == ReductionKind::Sum && !edge.rule->linear.empty() && !isAnySplit(edge);
    }
    for (auto [i, node] : llvm::enumerate(graph.nodes))
      if (node.fixed && !isPartial(node.partial))
        reduced.set(i);
  }

  void run() {
    do {
      computeKept();
      if (reduceWhereUsesForbid())
        continue;
      if (!reduceWhereCheaper())
        break;
    } while (true);
    for (unsigned node : kept.set_bits())
      if (!graph.nodes[node].fixed)
        keepPartial(graph.nodes[node]);
  }

private:
  bool isPartial(ArrayRef<PartialAttr> partial) const {
    return llvm::any_of(partial,
                        [&](PartialAttr p) { return p.getAxis() == axis && p.getKind() == kind; });
  }

  void keepPartial(ShardingNode &node) {
    node.partial.push_back(PartialAttr::get(axis.getContext(), axis, kind));
    if (isOfferedLater(node))
      for (Split &split : node.splits)
        split =
            simplify(without(split, [&](StringAttr other) { return other == axis; }), graph.mesh);
  }

  bool isOfferedLater(const ShardingNode &node) const {
    return llvm::is_contained(node.laterAxes, axis);
  }

  /// Returns true if the node is split over the axis. Ignores a split that a later seed or ZeRO
  /// added: instead of being split, the node can stay partial over the axis, and be
  /// reduce-scattered later.
  bool isSplit(unsigned node) const {
    return !isOfferedLater(graph.nodes[node]) && isSplitOnAnyDim(node);
  }

  bool isSplitOnAnyDim(unsigned node) const {
    return llvm::any_of(graph.nodes[node].splits, [&](const Split &split) {
      return llvm::any_of(
          split, [&](const SubFactor &factor) { return llvm::is_contained(factor.axes, axis); });
    });
  }

  bool isAnySplit(const ShardingEdge &edge) const {
    auto split = [&](int node) { return node >= 0 && isSplit(node); };
    return llvm::any_of(edge.operands, split) || llvm::any_of(edge.results, split);
  }

  bool isKept(int node) const { return node >= 0 && kept[node]; }

  /// Returns true if an op that runs on partial operands would have to gather this operand.
  bool wouldBeGathered(int node) const { return node >= 0 && isSplitOnAnyDim(node); }

  /// Returns the linear group that consists of exactly the operands that stay partial. Returns null
  /// if there is none, or if another operand would be gathered.
  const SmallVector<unsigned, 2> *getGroup(unsigned number) const {
    const ShardingEdge &edge = graph.edges[number];
    if (!passes[number])
      return nullptr;
    for (const SmallVector<unsigned, 2> &group : edge.rule->linear) {
      bool matches = !group.empty();
      for (unsigned i = 0; i < edge.operands.size() && matches; ++i)
        matches = llvm::is_contained(group, i)
                      ? isKept(edge.operands[i])
                      : !isKept(edge.operands[i]) && !wouldBeGathered(edge.operands[i]);
      if (matches)
        return &group;
    }
    return nullptr;
  }

  bool isOfKind(const ShardingEdge &accumulation) const {
    return cast<AccumulateOp>(accumulation.op).getKind() == kind;
  }

  void setKept(int node, bool raw) {
    if (node >= 0)
      kept[node] = raw && !reduced[node] && !isSplit(node);
  }

  /// Computes `kept` in program order. Assumes that every value outside `reduced` stays partial if
  /// its op can compute it as partial.
  void computeKept() {
    kept.reset();
    // Per variable: 1 if all accumulated values are partial, -1 if one is not.
    SmallVector<int> accumulations(graph.nodes.size(), 0);
    for (auto [i, edge] : llvm::enumerate(graph.edges)) {
      switch (edge.kind) {
      case ShardingEdge::Kind::Op:
        for (int result : edge.results)
          setKept(result, (result >= 0 && generated[result]) || getGroup(i));
        break;
      case ShardingEdge::Kind::Accumulate: {
        int variable = edge.results[0];
        int &state = accumulations[variable];
        state = state >= 0 && isKept(edge.operands[0]) && isOfKind(edge) ? 1 : -1;
        setKept(variable, state > 0);
        break;
      }
      case ShardingEdge::Kind::Read:
        setKept(edge.results[0],
                isKept(edge.operands[0]) || (graph.nodes[edge.operands[0]].fixed &&
                                             isPartial(graph.nodes[edge.operands[0]].partial)));
        break;
      case ShardingEdge::Kind::Write:
      case ShardingEdge::Kind::Belongs:
        break;
      }
    }
  }

  bool mayUse(unsigned number) const {
    const ShardingEdge &edge = graph.edges[number];
    switch (edge.kind) {
    case ShardingEdge::Kind::Op:
      return getGroup(number);
    case ShardingEdge::Kind::Accumulate:
      return isOfKind(edge) &&
             (isKept(edge.results[0]) || (graph.nodes[edge.results[0]].fixed &&
                                          isPartial(graph.nodes[edge.results[0]].partial)));
    case ShardingEdge::Kind::Read:
    case ShardingEdge::Kind::Belongs:
      return true;
    case ShardingEdge::Kind::Write:
      return false;
    }
    return false;
  }

  bool isUse(const ShardingEdge &edge, unsigned node) const {
    return llvm::is_contained(edge.operands, int(node));
  }

  bool reduceWhereUsesForbid() {
    bool changed = false;
    for (unsigned node : kept.set_bits()) {
      bool allowed = !graph.nodes[node].returned;
      for (unsigned number : graph.nodes[node].edges)
        allowed &= !isUse(graph.edges[number], node) || mayUse(number);
      if (allowed)
        continue;
      reduced.set(node);
      changed = true;
    }
    return changed;
  }

  double getBytes(unsigned node) const {
    double bytes = graph.nodes[node].bytes;
    for (const Split &split : graph.nodes[node].splits)
      bytes /= graph.mesh.getShards(getAxes(split));
    return bytes;
  }

  /// Returns the bytes to reduce if a value is reduced after its use by edge `number`. If the edge
  /// is an op, the cost of its results is shared equally by the operands that stay partial.
  double getShare(unsigned number) {
    const ShardingEdge &edge = graph.edges[number];
    if (edge.kind == ShardingEdge::Kind::Accumulate)
      return getBytes(edge.results[0]) * kStepShare; // reduced once per step
    double total = 0;
    for (int result : edge.results)
      if (result >= 0)
        total += cost[result];
    SmallVector<int> operands;
    for (int operand : edge.operands)
      if (isKept(operand) && !llvm::is_contained(operands, operand))
        operands.push_back(operand);
    return total / std::max<size_t>(operands.size(), 1);
  }

  /// Visits the program backward. Lets the producer of a partial value reduce the value, unless a
  /// reduction after the uses moves fewer bytes. Example: a 4 MB partial sum stays partial if its
  /// only user is a linear op with a 1 MB result.
  bool reduceWhereCheaper() {
    bool changed = false;
    for (int number = graph.edges.size() - 1; number >= 0; --number) {
      const ShardingEdge &edge = graph.edges[number];
      if (edge.kind != ShardingEdge::Kind::Op && edge.kind != ShardingEdge::Kind::Read)
        continue;
      for (int node : edge.results)
        if (node >= 0)
          changed |= price(node);
    }
    return changed;
  }

  bool price(unsigned node) {
    double here = getBytes(node);
    cost[node] = here;
    if (!kept[node])
      return false;
    double later = 0;
    unsigned uses = 0;
    for (unsigned number : graph.nodes[node].edges)
      if (isUse(graph.edges[number], node)) {
        later += getShare(number);
        ++uses;
      }
    cost[node] = std::min(here, later);
    if (uses > 0 && later < here)
      return false;
    reduced.set(node);
    return true;
  }

  ShardingGraph &graph;
  StringAttr axis;
  ReductionKind kind;
  llvm::BitVector generated;
  llvm::BitVector passes;
  llvm::BitVector kept;
  llvm::BitVector reduced;
  std::vector<double> cost;
};
} // namespace

void choosePartials(ShardingGraph &graph) {
  EdgeShardings known(graph);
  choosePartials(graph, known);
}

void choosePartials(ShardingGraph &graph, EdgeShardings &known) {
  if (llvm::all_of(graph.mesh.getAxes(), [](AxisAttr axis) { return axis.getDevices() == 1; }))
    return;
  // `raw` stores how ops run while no value is partial yet. All partial values originate from the
  // partial results in `raw`.
  std::vector<const OpSharding *> raw(graph.edges.size());
  std::vector<ShardingAttr> nodes = known.getNodes();
  for (auto [i, edge] : llvm::enumerate(graph.edges))
    if (edge.kind == ShardingEdge::Kind::Op)
      raw[i] = &known.get(i, nodes);
  for (AxisAttr axis : graph.mesh.getAxes())
    for (ReductionKind kind : {ReductionKind::Sum, ReductionKind::Max, ReductionKind::Min})
      if (axis.getDevices() > 1)
        AxisChooser(graph, axis.getName(), kind, raw).run();
}

} // namespace parashard::sharding
