// Implements the searched policy: a beam search over splits of parameters and values.
#include "lib/Sharding/GraphPrice.h"
#include "lib/Sharding/NamedResults.h"
#include "lib/Sharding/Propagation.h"
#include "lib/Sharding/SeedBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {
namespace {

/// Number of states that the search keeps after each step.
constexpr size_t kBeam = 2;
/// Minimum gain of another split, as a fraction of the objective.
constexpr double kMinGain = 0.001;
/// Maximum number of choices that are priced. A model with many different layers has many choices.
/// Pricing a choice takes time in proportion to the size of the model.
constexpr unsigned kMaxTries = 600;

/// A split to try. It splits the same parameters, or the same value, in all equal blocks.
struct Choice {
  std::string what; ///< for reasons: "dim 0 of h.*.mlp.c_fc.weight"
  std::string key;  ///< `what` and the shape; unique
  /// By block: seeds of parameters. A block is skipped if one of its parameters is already split.
  std::vector<std::vector<Seed>> variables;
  std::vector<LaterSeed> values;
};

/// Replaces the numbers of a path by `*`. Example: "h.3.mlp" gives "h.*.mlp".
std::string getRole(StringRef path) {
  SmallVector<StringRef> parts;
  path.split(parts, '.');
  for (StringRef &part : parts)
    if (!part.empty() && llvm::all_of(part, llvm::isDigit))
      part = "*";
  return llvm::join(parts, ".");
}

/// By node: the dims that contain the batch.
using BatchDims = std::vector<SmallVector<bool, 4>>;

/// Finds the choices. Each choice splits over `shards` ranks.
class ChoiceFinder : SeedBuilder {
public:
  explicit ChoiceFinder(const ShardingGraph &graph)
      : SeedBuilder(graph, "searched"), results(listResults(graph)) {
    for (const NamedResult &result : results)
      names[result.node] = &result;
  }

  /// Returns splits of single parameters. For each op without weights, such as an attention, also
  /// returns joint splits of all parameters from which the op's operands are computed.
  std::vector<Choice> findOfVariables() {
    for (auto [i, node] : llvm::enumerate(graph.nodes))
      if (isWeight(i, node))
        for (unsigned dim = 0; dim < node.shape.size(); ++dim)
          addDim(i, node, dim);
    for (unsigned edge : structure.getForward())
      if (!structure.isContraction(edge) && countInputs(edge) > 1 && graph.edges[edge].priority > 0)
        addFactors(edge);
    return take();
  }

  /// Returns splits of the first results of the ops in `edges`, along dims that do not contain the
  /// batch.
  std::vector<Choice> findOfValues(ArrayRef<unsigned> edges, const BatchDims &batchDims) {
    for (unsigned edge : edges) {
      const NamedResult *name = findName(edge);
      if (!name)
        continue;
      const ShardingNode &value = graph.nodes[name->node];
      for (unsigned dim = 0; dim < value.shape.size(); ++dim)
        if (value.shape[dim] >= shards && !batchDims[name->node][dim])
          addValue(*name, value, dim);
    }
    return take();
  }

  /// Returns the edges of the forward ops that have an input of the model as an operand.
  SmallVector<unsigned> findInputOps() const {
    SmallVector<unsigned> ops;
    for (unsigned edge : structure.getForward())
      if (llvm::any_of(graph.edges[edge].operands, [&](int node) {
            return node >= 0 && isa_and_nonnull<BlockArgument>(graph.nodes[node].value);
          }))
        ops.push_back(edge);
    return ops;
  }

private:
  /// Returns true for a parameter that has at least two dims, is read, and is not sharded yet.
  /// Parameters with one dim get their splits by propagation.
  bool isWeight(unsigned number, const ShardingNode &node) const {
    return node.variable && VariableOp(node.variable).getKind() == VariableKind::Parameter &&
           node.shape.size() > 1 && !node.fixed && llvm::any_of(node.edges, [&](unsigned edge) {
             return graph.edges[edge].kind == ShardingEdge::Kind::Read;
           });
  }

  int countInputs(unsigned edge) const {
    return int(llvm::count_if(graph.edges[edge].operands, [&](int node) {
      return node >= 0 && structure.dependsOnInput(node);
    }));
  }

  /// Returns the name of the first result of an op; null if the result has no name.
  const NamedResult *findName(unsigned edge) const {
    int node = graph.edges[edge].results[0];
    return node < 0 ? nullptr : names.lookup(unsigned(node));
  }

  std::vector<Choice> take() {
    indices.clear();
    return std::exchange(list, {});
  }

  /// Returns the choice for `what` and a shape. The first call with these arguments creates the
  /// choice.
  Choice &getChoice(const std::string &what, ArrayRef<int64_t> shape) {
    std::string key =
        what + " of " +
        llvm::join(llvm::map_range(shape, [](int64_t size) { return std::to_string(size); }), "x");
    auto [index, isNew] = indices.try_emplace(key, list.size());
    if (isNew)
      list.push_back({what, key, {}, {}});
    return list[index->second];
  }

  TensorSplits splitDim(ArrayRef<int64_t> shape, unsigned dim) const {
    TensorSplits splits;
    for (auto [i, size] : llvm::enumerate(shape))
      splits.push_back(i == dim ? makeSplit(size, axes) : wholeSplit(size));
    return splits;
  }

  void addDim(unsigned number, const ShardingNode &node, unsigned dim) {
    if (node.shape[dim] < shards)
      return;
    std::string what =
        llvm::formatv("dim {0} of {1}", dim, getRole(VariableOp(node.variable).getDisplayName()));
    getChoice(what, node.shape).variables.push_back({{number, splitDim(node.shape, dim), {}}});
  }

  /// Adds a choice for each result factor of an op without weights. The choice splits the
  /// parameters from which the op's operands are computed.
  void addFactors(unsigned number) {
    const ShardingEdge &edge = graph.edges[number];
    const NamedResult *name = findName(number);
    if (!name)
      return;
    for (auto [i, dim] : llvm::enumerate(edge.rule->results[0]))
      for (unsigned factor : dim) {
        if (edge.rule->factors[factor].size < 2 ||
            edge.rule->factors[factor].kind == RuleFactor::Kind::Whole)
          continue;
        SmallVector<Split> factors = makeWholeFactors(*edge.rule);
        factors[factor] = makeSplit(factors[factor][0].size, axes);
        SeedPlan plan;
        for (auto [operand, dims] : llvm::zip(edge.operands, edge.rule->operands))
          if (operand >= 0 && structure.dependsOnInput(operand))
            splitSources(operand, projectToTensor(*edge.rule, dims, factors, mesh), plan);
        if (!plan.failed && !plan.variables.empty())
          addPlan(llvm::formatv("factor {0} of {1}:{2}", factor, getRole(name->path), name->op),
                  graph.nodes[name->node].shape, plan);
      }
  }

  void addPlan(const std::string &what, ArrayRef<int64_t> shape, const SeedPlan &plan) {
    std::vector<Seed> &seeds = getChoice(what, shape).variables.emplace_back();
    for (auto &[variable, splits] : plan.variables)
      seeds.push_back({variable, splits, {}});
  }

  void addValue(const NamedResult &name, const ShardingNode &node, unsigned dim) {
    std::string what =
        llvm::formatv("dim {0} of {1}:{2}#{3}", dim, getRole(name.path), name.op, name.number);
    Choice &choice = getChoice(what, node.shape);
    for (const NamedResult &other : results)
      if (other.op == name.op && other.number == name.number &&
          graph.nodes[other.node].shape == node.shape &&
          getRole(other.path) == getRole(name.path) &&
          llvm::none_of(choice.values,
                        [&](const LaterSeed &seed) { return seed.value == other.node; }))
        choice.values.push_back({other.node, splitDim(node.shape, dim), {}});
  }

  std::vector<NamedResult> results;
  DenseMap<unsigned, const NamedResult *> names; ///< by node
  std::vector<Choice> list;
  llvm::StringMap<size_t> indices; ///< in `list`, by key
};

/// A state of the search: its seeds, and the splits of all nodes after propagating the seeds. The
/// splits exclude those of later seeds.
struct State {
  std::vector<TensorSplits> splits;
  Seeds seeds;
  GraphPrice price;
  double objective = 0;
  SmallVector<unsigned> reduced; ///< ops of the forward whose results are reduced
  /// Keys of choices that gave no gain, in this state or in an earlier one.
  llvm::StringSet<> lost;
};

/// A state with one more choice than its parent.
struct Child {
  State state;
  std::string choice; ///< `Choice::what`
  size_t parent;      ///< index in the beam
};

class Searcher {
public:
  Searcher(ShardingGraph &graph, const costs::Cluster &cluster, double memoryShare)
      : graph(graph), memoryShare(memoryShare), known(graph), pricer(graph, cluster, known),
        finder(graph) {
    for (const ShardingNode &node : graph.nodes)
      initial.push_back(node);
  }

  Seeds run() {
    batchDims = findBatchDims();
    std::vector<Choice> choices = finder.findOfVariables();
    llvm::append_range(choices, finder.findOfValues(finder.findInputOps(), batchDims));
    best = makeStart();
    std::vector<State> beam{best};
    // When no choice gives a gain, the dropped choices are tried once more, for the best state.
    for (bool isLast = false;;) {
      std::vector<Child> children;
      for (size_t i = 0; i < beam.size(); ++i)
        extend(beam, i, choices, children);
      beam = keepBest(beam, std::move(children));
      if (!beam.empty() && beam.front().objective < best.objective)
        best = beam.front();
      if (!beam.empty())
        continue;
      if (isLast)
        break;
      isLast = true;
      beam.push_back(best);
      beam.front().lost.clear();
    }
    return finish();
  }

private:
  /// Returns the state without seeds.
  State makeStart() {
    State start;
    propagateAll(start);
    replicated = start.price;
    start.objective = getObjective(start.price);
    return start;
  }

  std::vector<TensorSplits> getInitialSplits() const {
    std::vector<TensorSplits> splits;
    for (const ShardingNode &node : initial)
      splits.push_back(node.splits);
    return splits;
  }

  /// Finds the dims that contain the batch: splits the inputs along their batch dims and
  /// propagates.
  BatchDims findBatchDims() {
    SmallVector<StringAttr> axes = graph.mesh.getAxes({AxisKind::Tensor});
    for (ShardingNode &node : graph.nodes) {
      auto argument = dyn_cast_or_null<BlockArgument>(node.value);
      std::optional<unsigned> dim = argument ? findBatchDim(argument) : std::nullopt;
      if (dim && *dim < node.splits.size())
        llvm::append_range(node.splits[*dim].front().axes, axes);
    }
    propagateSplits(graph);
    BatchDims found(graph.nodes.size());
    for (auto [node, dims] : llvm::zip(graph.nodes, found))
      for (const Split &split : node.splits)
        dims.push_back(llvm::is_contained(getAxes(split), axes.front()));
    return found;
  }

  static std::optional<unsigned> findBatchDim(BlockArgument argument) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto marked =
        function ? function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kBatchDimMark)
                 : IntegerAttr();
    int64_t dim = marked ? marked.getInt() : 0;
    return dim < 0 ? std::nullopt : std::optional(unsigned(dim)); // negative: no batch dim
  }

  /// Sets the splits of the graph. Removes all seeds, and restores the initial partial values.
  void restore(const std::vector<TensorSplits> &splits) {
    for (auto [i, node] : llvm::enumerate(graph.nodes)) {
      node.splits = splits[i];
      node.fixed = initial[i].fixed;
      node.partial = initial[i].partial;
      node.later.clear();
      node.laterAxes.clear();
      node.cause = -1;
    }
  }

  void save(State &state) const {
    state.splits.clear();
    for (const ShardingNode &node : graph.nodes)
      state.splits.push_back(node.splits);
  }

  double getObjective(const GraphPrice &price) const {
    if (replicated.bytes == 0) // not priced yet
      return price.seconds;
    return price.seconds + memoryShare * replicated.seconds * price.bytes / replicated.bytes;
  }

  /// Prices the splits of a state, and leaves these splits in the graph.
  void price(State &state) {
    restore(state.splits);
    for (const Seed &seed : state.seeds.variables)
      graph.nodes[seed.variable].fixed = true;
    for (const LaterSeed &seed : state.seeds.values)
      graph.nodes[seed.value].later = seed.splits;
    propagateLaterSplits(graph);
    replicateSharedConstants(graph, known);
    choosePartials(graph, known);
    state.price = pricer.get();
    state.objective = getObjective(state.price);
    state.reduced.assign(pricer.getReduced().begin(), pricer.getReduced().end());
  }

  /// Adds to `children` the states with one more choice than a state of the beam, if the choice
  /// gives a gain.
  void extend(std::vector<State> &beam, size_t parent, ArrayRef<Choice> choices,
              std::vector<Child> &children) {
    State &state = beam[parent];
    auto tryAll = [&](ArrayRef<Choice> list) {
      for (const Choice &choice : list) {
        if (state.lost.contains(choice.key) || tries == kMaxTries)
          continue;
        if (std::optional<State> child = tryChoice(state, choice))
          children.push_back({std::move(*child), choice.what, parent});
        else
          state.lost.insert(choice.key);
      }
    };
    tryAll(choices);
    tryAll(finder.findOfValues(state.reduced, batchDims));
  }

  /// Returns the best children, at most `kBeam`, best first. Propagates the seeds of each of them
  /// at once, which takes longer than `tryChoice`, and drops those that then give no gain.
  std::vector<State> keepBest(ArrayRef<State> beam, std::vector<Child> children) {
    llvm::stable_sort(children, [](const Child &a, const Child &b) {
      return a.state.objective < b.state.objective;
    });
    std::vector<State> kept;
    for (Child &child : children) {
      if (kept.size() == kBeam)
        break;
      const State &parent = beam[child.parent];
      State &state = child.state;
      propagateAll(state);
      if (!isGain(state, parent) ||
          llvm::any_of(kept, [&](const State &other) { return isSame(state, other); }))
        continue;
      addReasons(state, describeGain(child.choice, parent, state));
      state.lost = parent.lost;
      kept.push_back(std::move(state));
    }
    llvm::stable_sort(kept,
                      [](const State &a, const State &b) { return a.objective < b.objective; });
    return kept;
  }

  /// Sets the reason of each seed that has none.
  static void addReasons(State &state, StringRef reason) {
    for (Seed &seed : state.seeds.variables)
      seed.reason = seed.reason.empty() ? reason.str() : seed.reason;
    for (LaterSeed &seed : state.seeds.values)
      seed.reason = seed.reason.empty() ? reason.str() : seed.reason;
  }

  /// Returns `state` with one more choice, or nullopt if the choice does not give a gain.
  std::optional<State> tryChoice(const State &state, const Choice &choice) {
    State child;
    child.seeds = state.seeds;
    restore(state.splits);
    for (const Seed &seed : state.seeds.variables)
      graph.nodes[seed.variable].fixed = true;
    bool isNew = false;
    for (const std::vector<Seed> &block : choice.variables)
      isNew |= addBlock(block, child.seeds);
    for (const LaterSeed &value : choice.values)
      if (llvm::none_of(child.seeds.values,
                        [&](const LaterSeed &seed) { return seed.value == value.value; })) {
        child.seeds.values.push_back(value);
        isNew = true;
      }
    if (!isNew)
      return std::nullopt;
    ++tries;
    save(child);
    price(child);
    return isGain(child, state) ? std::optional(std::move(child)) : std::nullopt;
  }

  bool isGain(const State &child, const State &before) const {
    return child.objective < before.objective - kMinGain * best.objective;
  }

  /// Propagates all seeds at once, as ps-propagate-shardings does, and prices the result. The
  /// splits may differ from those in `tryChoice`, which propagates the seeds of one block after the
  /// other.
  void propagateAll(State &state) {
    restore(getInitialSplits());
    for (const Seed &seed : state.seeds.variables) {
      graph.nodes[seed.variable].splits = seed.splits;
      graph.nodes[seed.variable].fixed = true;
    }
    propagateSplits(graph);
    save(state);
    price(state);
  }

  /// Splits the parameters of a block, and propagates the splits. Does nothing and returns false if
  /// one of the parameters is already split.
  bool addBlock(const std::vector<Seed> &block, Seeds &seeds) {
    if (llvm::any_of(block, [&](const Seed &seed) {
          return graph.nodes[seed.variable].fixed || !areWhole(graph.nodes[seed.variable].splits);
        }))
      return false;
    SmallVector<unsigned> changed;
    for (const Seed &seed : block) {
      graph.nodes[seed.variable].splits = seed.splits;
      graph.nodes[seed.variable].fixed = true;
      seeds.variables.push_back(seed);
      changed.push_back(seed.variable);
    }
    propagateSplitsFrom(graph, changed);
    return true;
  }

  static bool isSame(const State &a, const State &b) {
    return a.objective == b.objective && a.splits == b.splits &&
           a.seeds.values.size() == b.seeds.values.size();
  }

  static std::string describeGain(StringRef choice, const State &before, const State &after) {
    double gain = 1 - after.price.seconds / before.price.seconds;
    return llvm::formatv("searched: {0}: {1:f1} % {2}", choice, 100 * std::abs(gain),
                         gain < 0 ? "slower, with less memory" : "faster");
  }

  Seeds finish() {
    restore(best.splits);
    if (best.seeds.variables.empty() && best.seeds.values.empty())
      best.seeds.unmatched = kNoSplitGains;
    return std::move(best.seeds);
  }

  ShardingGraph &graph;
  double memoryShare;
  EdgeShardings known;
  GraphPricer pricer;
  ChoiceFinder finder;
  std::vector<ShardingNode> initial;
  BatchDims batchDims;
  unsigned tries = 0;
  GraphPrice replicated; ///< price without splits over the tensor axes
  State best;
};

} // namespace

Seeds searchSeeds(ShardingGraph &graph, const costs::Cluster &cluster, double memoryShare) {
  if (graph.mesh.getAxes({AxisKind::Tensor}).empty() || graph.edges.empty())
    return {};
  return Searcher(graph, cluster, memoryShare).run();
}

} // namespace parashard::sharding
