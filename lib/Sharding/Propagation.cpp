// Propagates splits of dims through the graph.
#include "lib/Sharding/Propagation.h"
#include "llvm/ADT/BitVector.h"
#include <deque>

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

namespace {
struct EdgeTensor {
  unsigned node;
  const TensorFactors *dims;
  SmallVector<Split> factors;
};

/// Rewrites `split` with the factor sizes of `other`. Returns an empty split if this is not
/// possible. Example: `64 {dp}` read as (4 x 16) is `(4 {dp} x 16)` if dp divides 4.
Split readAs(const Split &split, const Split &other, const MeshShape &mesh) {
  SmallVector<int64_t> sizes;
  for (const SubFactor &factor : other)
    sizes.push_back(factor.size);
  SmallVector<StringAttr> dropped;
  Split read;
  for (const Split &part : cut(split, sizes, mesh, &dropped)) {
    if (part.size() != 1)
      return {};
    read.push_back(part[0]);
  }
  return dropped.empty() ? read : Split();
}

/// Returns true if `longer` splits the same factors as `split`, over at least the same axes.
/// Example: `(4 {dp} x 16 {tp})` extends `64 {dp}` if dp divides 4.
bool extends(const Split &longer, const Split &split, const MeshShape &mesh) {
  if (longer.size() > split.size())
    if (Split finer = readAs(split, longer, mesh); !finer.empty())
      return extends(longer, finer, mesh);
  if (longer.size() != split.size())
    return false;
  for (auto [a, b] : llvm::zip(longer, split))
    if (a.size != b.size || a.axes.size() < b.axes.size() ||
        ArrayRef<StringAttr>(a.axes).take_front(b.axes.size()) != ArrayRef<StringAttr>(b.axes))
      return false;
  return true;
}

class Propagator {
public:
  explicit Propagator(ShardingGraph &graph) : graph(graph), queued(graph.edges.size()) {}

  void runAll() {
    for (unsigned i = 0; i < graph.edges.size(); ++i)
      enqueue(i);
    run();
  }

  void runFrom(ArrayRef<unsigned> nodes) {
    for (unsigned node : nodes)
      for (unsigned edge : graph.nodes[node].edges)
        enqueue(edge);
    run();
  }

private:
  void run() {
    while (true) {
      std::deque<unsigned> &queue = !queues[0].empty() ? queues[0] : queues[1];
      if (queue.empty())
        return;
      unsigned number = queue.front();
      queue.pop_front();
      queued.reset(number);
      step(number);
    }
  }

  void enqueue(unsigned number) {
    if (queued[number])
      return;
    queued.set(number);
    queues[graph.edges[number].priority].push_back(number);
  }

  bool isBatchLikeAxis(StringAttr axis) const {
    AxisKind kind = graph.mesh.getKind(axis);
    return kind == AxisKind::Data || kind == AxisKind::Context || kind == AxisKind::Expert;
  }

  /// Collects the tensors of an edge. Returns false if none of them is split.
  bool collect(const ShardingEdge &edge, SmallVectorImpl<EdgeTensor> &tensors) {
    bool any = false;
    auto add = [&](ArrayRef<int> nodes, ArrayRef<TensorFactors> dims) {
      for (auto [node, factors] : llvm::zip(nodes, dims)) {
        if (node < 0)
          continue;
        any |= !llvm::all_of(graph.nodes[node].splits, isWhole);
        tensors.push_back({unsigned(node), &factors, {}});
      }
    };
    add(edge.operands, edge.rule->operands);
    add(edge.results, edge.rule->results);
    return any;
  }

  /// The split of a factor, and the bytes of the tensors that carry this split.
  struct Offer {
    Split split;
    int64_t bytes = 0;
  };

  /// Returns, for each factor, the split carried by the most bytes. A split and an extension of it
  /// count as the same split. Example: splits {tp} (8 MB) and {dp} (2 MB) of the same factor give
  /// {tp}.
  SmallVector<Offer> mergeFactors(const ShardingEdge &edge, ArrayRef<EdgeTensor> tensors) {
    SmallVector<SmallVector<Offer, 1>> offers(edge.rule->factors.size());
    for (const EdgeTensor &tensor : tensors) {
      if (graph.nodes[tensor.node].constant)
        continue;
      for (auto [i, split] : llvm::enumerate(tensor.factors)) {
        if (isWhole(split) || edge.rule->factors[i].kind == RuleFactor::Kind::Whole)
          continue;
        addOffer(offers[i], split, graph.nodes[tensor.node].bytes);
      }
    }
    SmallVector<Offer> merged(edge.rule->factors.size());
    for (auto [i, list] : llvm::enumerate(offers))
      for (Offer &offer : list)
        if (merged[i].split.empty() || offer.bytes > merged[i].bytes)
          merged[i] = std::move(offer);
    return merged;
  }

  void addOffer(SmallVectorImpl<Offer> &offers, const Split &split, int64_t bytes) const {
    for (Offer &offer : offers) {
      if (extends(split, offer.split, graph.mesh))
        offer.split = split;
      else if (!extends(offer.split, split, graph.mesh))
        continue;
      offer.bytes += bytes;
      return;
    }
    offers.push_back({split, bytes});
  }

  void step(unsigned number) {
    const ShardingEdge &edge = graph.edges[number];
    SmallVector<EdgeTensor> tensors;
    if (!collect(edge, tensors))
      return;
    for (EdgeTensor &tensor : tensors)
      tensor.factors =
          projectToFactors(*edge.rule, *tensor.dims, graph.nodes[tensor.node].splits, graph.mesh);
    SmallVector<Offer> offers = mergeFactors(edge, tensors);
    SmallVector<unsigned> order;
    for (unsigned i = 0; i < offers.size(); ++i)
      if (!offers[i].split.empty())
        order.push_back(i);
    llvm::sort(order, [&](unsigned a, unsigned b) {
      return std::tuple(-offers[a].bytes, a) < std::tuple(-offers[b].bytes, b);
    });
    for (EdgeTensor &tensor : tensors)
      if (!graph.nodes[tensor.node].fixed && take(edge, tensor, offers, order))
        notify(tensor.node, number);
  }

  /// Adds the offered splits to the factors of a tensor, in descending order of bytes. Returns true
  /// if a dim has changed.
  bool take(const ShardingEdge &edge, EdgeTensor &tensor, ArrayRef<Offer> offers,
            ArrayRef<unsigned> order) {
    ShardingNode &node = graph.nodes[tensor.node];
    SmallVector<StringAttr> used;
    for (const Split &split : node.splits)
      llvm::append_range(used, getAxes(split));
    SmallVector<unsigned, 4> changed;
    for (unsigned factor : order) {
      if (!llvm::any_of(*tensor.dims,
                        [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); }))
        continue;
      Split &current = tensor.factors[factor];
      if (!isWhole(current) && !extends(offers[factor].split, current, graph.mesh))
        continue;
      SmallVector<StringAttr> own = getAxes(current);
      Split wanted = simplify(without(offers[factor].split,
                                      [&](StringAttr axis) {
                                        if (llvm::is_contained(own, axis))
                                          return false;
                                        return llvm::is_contained(used, axis) ||
                                               ((edge.modelAxesOnly || !node.takesDataAxes) &&
                                                isBatchLikeAxis(axis));
                                      }),
                              graph.mesh);
      if (isWhole(wanted) || wanted == current)
        continue;
      llvm::append_range(used, getAxes(wanted));
      current = std::move(wanted);
      changed.push_back(factor);
    }
    return !changed.empty() && rebuildDims(edge, tensor, changed);
  }

  /// Joins the factors of the changed dims. Skips a dim if the joined split would lose an axis that
  /// splits the dim now. Returns true if a dim has changed.
  bool rebuildDims(const ShardingEdge &edge, const EdgeTensor &tensor, ArrayRef<unsigned> changed) {
    ShardingNode &node = graph.nodes[tensor.node];
    bool any = false;
    for (auto [dim, factors] : llvm::enumerate(*tensor.dims)) {
      if (!llvm::any_of(factors, [&](unsigned f) { return llvm::is_contained(changed, f); }))
        continue;
      SmallVector<Split> parts;
      for (unsigned factor : factors)
        parts.push_back(tensor.factors[factor]);
      Split joined = join(parts, graph.mesh);
      SmallVector<StringAttr> axes = getAxes(joined);
      if (!llvm::all_of(getAxes(node.splits[dim]),
                        [&](StringAttr axis) { return llvm::is_contained(axes, axis); }))
        continue;
      node.splits[dim] = std::move(joined);
      any = true;
    }
    return any;
  }

  void notify(unsigned node, unsigned cause) {
    graph.nodes[node].cause = cause;
    for (unsigned edge : graph.nodes[node].edges)
      if (edge != cause)
        enqueue(edge);
  }

  ShardingGraph &graph;
  std::deque<unsigned> queues[2];
  llvm::BitVector queued;
};
} // namespace

void propagateSplits(ShardingGraph &graph) { Propagator(graph).runAll(); }

void propagateSplitsFrom(ShardingGraph &graph, ArrayRef<unsigned> nodes) {
  Propagator(graph).runFrom(nodes);
}

static SmallVector<StringAttr> getAxes(const ShardingNode &node) {
  SmallVector<StringAttr> axes;
  for (const Split &split : node.splits)
    llvm::append_range(axes, getAxes(split));
  return axes;
}

/// Appends the axes of `added` to those of `split`, factor by factor. Returns `split` if the
/// boundaries of the factors do not match.
static Split addAxes(const Split &split, const Split &added, const MeshShape &mesh) {
  Split read = readAs(split, added, mesh);
  if (isWhole(added) || read.empty())
    return split;
  for (auto [factor, more] : llvm::zip(read, added))
    llvm::append_range(factor.axes, more.axes);
  return simplify(read, mesh);
}

static void takeLater(ShardingNode &node, const MeshShape &mesh) {
  SmallVector<StringAttr> used = getAxes(node);
  for (auto [split, later] : llvm::zip(node.splits, node.later))
    split = addAxes(split,
                    without(later, [&](StringAttr axis) { return llvm::is_contained(used, axis); }),
                    mesh);
}

void propagateLaterSplits(ShardingGraph &graph) {
  if (llvm::all_of(graph.nodes, [](const ShardingNode &node) { return node.later.empty(); }))
    return;
  std::vector<SmallVector<StringAttr>> before;
  std::vector<unsigned> changed;
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    before.push_back(getAxes(node));
    if (node.fixed || node.later.empty())
      continue;
    takeLater(node, graph.mesh);
    changed.push_back(i);
  }
  propagateSplitsFrom(graph, changed);
  for (auto [node, known] : llvm::zip(graph.nodes, before))
    for (StringAttr axis : getAxes(node))
      if (!llvm::is_contained(known, axis))
        node.laterAxes.push_back(axis);
}

void propagateZeroSplits(ShardingGraph &graph) {
  std::vector<SmallVector<StringAttr>> before;
  std::vector<unsigned> changed;
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    before.push_back(getAxes(node));
    if (node.splitByZero)
      changed.push_back(i);
  }
  propagateSplitsFrom(graph, changed);
  for (const ShardingEdge &edge : graph.edges) {
    bool producesValue =
        edge.kind == ShardingEdge::Kind::Op || edge.kind == ShardingEdge::Kind::Read;
    if (!producesValue || !edge.isInUpdate())
      continue;
    for (int result : edge.results)
      if (result >= 0)
        for (StringAttr axis : getAxes(graph.nodes[result]))
          if (!llvm::is_contained(before[result], axis))
            graph.nodes[result].laterAxes.push_back(axis);
  }
}

/// Returns true if every op that uses the node needs the node with its current sharding. `nodes[i]`
/// is the sharding of node i.
static bool usersAgree(const ShardingGraph &graph, unsigned number, EdgeShardings &known,
                       ArrayRef<ShardingAttr> nodes) {
  const ShardingNode &node = graph.nodes[number];
  for (unsigned use : node.edges) {
    const ShardingEdge &edge = graph.edges[use];
    if (edge.kind != ShardingEdge::Kind::Op || !llvm::is_contained(edge.operands, int(number)))
      continue;
    const OpSharding &runs = known.get(use, nodes);
    for (auto [operand, needed] : llvm::zip(edge.operands, runs.operands))
      if (operand == int(number) && needed != nodes[number])
        return false;
  }
  return true;
}

void replicateSharedConstants(ShardingGraph &graph) {
  EdgeShardings known(graph);
  replicateSharedConstants(graph, known);
}

void replicateSharedConstants(ShardingGraph &graph, EdgeShardings &known) {
  std::vector<ShardingAttr> nodes = known.getNodes();
  for (const ShardingEdge &edge : graph.edges) {
    if (edge.kind != ShardingEdge::Kind::Op || edge.results.size() != 1)
      continue;
    unsigned number = edge.results[0];
    ShardingNode &node = graph.nodes[number];
    if (!node.constant || llvm::all_of(node.splits, isWhole) ||
        usersAgree(graph, number, known, nodes))
      continue;
    for (auto [split, size] : llvm::zip(node.splits, node.shape))
      split = wholeSplit(size);
    nodes[number] = known.getNode(number);
  }
}

} // namespace parashard::sharding
