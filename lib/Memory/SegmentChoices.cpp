// Finds which forward ops of a segment to recompute. Tries all sets of ops if at most 12 ops can
// run again. Otherwise, uses minimum cuts and a local search.
#include "SegmentChoices.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <limits>
#include <set>

using namespace parashard;
using namespace parashard::memory;

SegmentChoice memory::evaluateChoice(const SegmentGraph &graph, const std::vector<char> &allowed) {
  SegmentChoice choice;
  choice.runs.assign(graph.ops.size(), 0);
  std::vector<char> needed(graph.values.size());
  for (auto [i, value] : llvm::enumerate(graph.values))
    needed[i] = value.isUsed;
  for (size_t i = graph.ops.size(); i-- > 0;) {
    const SegmentGraph::Op &op = graph.ops[i];
    choice.runs[i] = allowed[i] && op.canRunAgain &&
                     llvm::any_of(op.results, [&](int value) { return needed[value]; });
    if (!choice.runs[i])
      continue;
    choice.cost += op.cost;
    for (int value : op.operands)
      needed[value] = 1;
  }
  for (auto [i, value] : llvm::enumerate(graph.values))
    if (needed[i] && (value.producer < 0 || !choice.runs[value.producer]))
      choice.bytes += value.bytes;
  return choice;
}

namespace {
constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Computes a minimum cut by augmenting shortest paths (Edmonds-Karp).
class Network {
public:
  explicit Network(int nodes) : edges(nodes) {}

  void connect(int from, int to, double capacity) {
    edges[from].push_back(heads.size());
    heads.push_back({to, capacity});
    edges[to].push_back(heads.size());
    heads.push_back({from, 0});
  }

  /// Returns, for each node, 1 if the node is on the source's side of the cut. Returns an empty
  /// list if no finite cut separates `source` from `sink`.
  std::vector<char> cut(int source, int sink) {
    while (findPath(source)[sink]) {
      double most = kInfinite;
      for (int at = sink; at != source; at = heads[cameBy[at] ^ 1].to)
        most = std::min(most, heads[cameBy[at]].capacity);
      if (most == kInfinite)
        return {};
      for (int at = sink; at != source; at = heads[cameBy[at] ^ 1].to) {
        heads[cameBy[at]].capacity -= most;
        heads[cameBy[at] ^ 1].capacity += most;
      }
    }
    return seen;
  }

private:
  struct Head {
    int to;
    double capacity;
  };

  const std::vector<char> &findPath(int source) {
    seen.assign(edges.size(), 0);
    cameBy.assign(edges.size(), -1);
    std::vector<int> queue = {source};
    seen[source] = 1;
    for (size_t i = 0; i < queue.size(); ++i)
      for (int edge : edges[queue[i]])
        if (int to = heads[edge].to; heads[edge].capacity > 0 && !seen[to]) {
          seen[to] = 1;
          cameBy[to] = edge;
          queue.push_back(to);
        }
    return seen;
  }

  std::vector<std::vector<int>> edges;
  std::vector<Head> heads; ///< the reverse of edge i is i ^ 1
  std::vector<char> seen;
  std::vector<int> cameBy;
};

class ChoiceFinder {
public:
  explicit ChoiceFinder(const SegmentGraph &graph) : graph(graph) {
    for (auto [i, op] : llvm::enumerate(graph.ops))
      if (op.canRunAgain)
        runnable.push_back(i);
  }

  std::vector<SegmentChoice> find() {
    add(std::vector<char>(graph.ops.size(), 0));
    if (runnable.size() <= kMaxTried)
      tryAll();
    else
      cutForAllPrices();
    return keepBest();
  }

private:
  static constexpr size_t kMaxTried = 12;      ///< largest number of ops for an exhaustive search
  static constexpr size_t kMaxPrices = 24;     ///< largest number of cuts in `searchBetween`
  static constexpr int64_t kMaxTries = 100000; ///< largest number of choices in the local search

  const SegmentChoice &add(const std::vector<char> &allowed) {
    found.push_back(evaluateChoice(graph, allowed));
    return found.back();
  }

  void tryAll() {
    for (uint64_t set = 1; set < uint64_t(1) << runnable.size(); ++set) {
      std::vector<char> allowed(graph.ops.size());
      for (auto [i, op] : llvm::enumerate(runnable))
        allowed[op] = set >> i & 1;
      add(allowed);
    }
  }

  /// Returns the choice with the least cost + `price` * (bytes stored for backward), from a minimum
  /// cut of a network with one node per value and per op. A value whose node is on the source's
  /// side of the cut is needed. An op whose node is on this side runs again. Returns nullopt if no
  /// finite cut exists.
  std::optional<SegmentChoice> solve(double price) {
    int values = graph.values.size(), source = values + graph.ops.size(), sink = source + 1;
    Network network(sink + 1);
    for (auto [i, value] : llvm::enumerate(graph.values)) {
      if (value.isUsed)
        network.connect(source, i, kInfinite);
      network.connect(i, value.producer < 0 ? sink : values + value.producer, price * value.bytes);
    }
    for (auto [i, op] : llvm::enumerate(graph.ops)) {
      network.connect(values + i, sink, op.canRunAgain ? op.cost : kInfinite);
      for (int value : op.operands)
        network.connect(values + i, value, kInfinite);
    }
    return read(network.cut(source, sink));
  }

  std::optional<SegmentChoice> read(const std::vector<char> &sides) {
    if (sides.empty())
      return std::nullopt;
    auto ops = sides.begin() + graph.values.size();
    return add(std::vector<char>(ops, ops + graph.ops.size()));
  }

  void cutForAllPrices() {
    int64_t all = 1;
    for (const SegmentGraph::Op &op : graph.ops)
      all += op.cost;
    SegmentChoice none = found.front();
    // One stored byte costs more than all ops.
    std::optional<SegmentChoice> least = solve(double(all));
    if (!least)
      return;
    searchBetween(*least, none);
    improve();
  }

  /// Adds the choices on the lower convex hull between two choices, in the plane of bytes and cost.
  /// A cut finds the choice farthest below the line between them, if the price of a byte is the
  /// absolute slope of this line. Then searches on both sides of that choice.
  void searchBetween(const SegmentChoice &few, const SegmentChoice &many) {
    if (few.bytes >= many.bytes || few.cost <= many.cost || prices.size() >= kMaxPrices)
      return;
    double price = double(few.cost - many.cost) / double(many.bytes - few.bytes);
    prices.push_back(price);
    std::optional<SegmentChoice> middle = solve(price);
    auto total = [&](const SegmentChoice &c) { return double(c.cost) + price * double(c.bytes); };
    if (!middle || total(*middle) >= total(few) * (1 - 1e-9))
      return;
    searchBetween(few, *middle);
    searchBetween(*middle, many);
  }

  /// Visits all choices within two steps of the best choices. A step removes one op, or adds one op
  /// with the ops that compute its operands. Repeats this until all best choices were visited.
  void improve() {
    std::set<std::vector<char>> visited;
    for (bool isNew = true; isNew;) {
      isNew = false;
      found = keepBest();
      for (const SegmentChoice &choice : std::vector<SegmentChoice>(found))
        if (tries < kMaxTries && visited.insert(choice.runs).second) {
          visitNeighbors(choice, 2);
          isNew = true;
        }
    }
  }

  void visitNeighbors(const SegmentChoice &choice, int steps) {
    for (int op : runnable) {
      if (++tries > kMaxTries)
        return;
      std::vector<char> allowed = choice.runs;
      if (allowed[op])
        allowed[op] = 0;
      else
        runWithSources(op, allowed);
      SegmentChoice next = evaluateChoice(graph, allowed);
      if (next.runs == choice.runs)
        continue;
      if (steps > 1)
        visitNeighbors(next, steps - 1);
      found.push_back(std::move(next));
    }
  }

  /// Adds `op` to `allowed`, and recursively the ops that compute its operands. Stops at values
  /// that backward uses.
  void runWithSources(int op, std::vector<char> &allowed) const {
    allowed[op] = 1;
    for (int value : graph.ops[op].operands)
      if (int producer = graph.values[value].producer;
          producer >= 0 && !graph.values[value].isUsed && graph.ops[producer].canRunAgain &&
          !allowed[producer])
        runWithSources(producer, allowed);
  }

  /// Returns the choices that cost less than every choice with fewer bytes. Sorts them, fewest
  /// bytes first.
  std::vector<SegmentChoice> keepBest() {
    llvm::stable_sort(found, [](const SegmentChoice &a, const SegmentChoice &b) {
      return std::pair(a.bytes, a.cost) < std::pair(b.bytes, b.cost);
    });
    std::vector<SegmentChoice> best;
    for (SegmentChoice &choice : found)
      if (best.empty() || choice.cost < best.back().cost)
        best.push_back(std::move(choice));
    return best;
  }

  const SegmentGraph &graph;
  std::vector<int> runnable;
  std::vector<double> prices;
  std::vector<SegmentChoice> found;
  int64_t tries = 0;
};
} // namespace

std::vector<SegmentChoice> memory::findChoices(const SegmentGraph &graph) {
  return ChoiceFinder(graph).find();
}
