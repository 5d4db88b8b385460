// Finds where a model's layers are cut into the stages of a pipeline.
//
// In this file, "rank" means a pipeline coordinate, as in Placement.h. A round is a range of
// consecutive layers that contains one chunk of every rank. In each round, the ranks take at least
// one layer each, in the order 0, 1, ... They take these layers from the front of the range. With
// placement V, they take the layers of rounds 1, 3, ... from the back instead.
//
// Example with 2 ranks and 2 chunks: stages 0 and 1 form round 0, and stages 2 and 3 form round 1.
// Rank 0 takes stages 0 and 2 with placement Loop, and stages 0 and 3 with placement V.
//
// For given bounds of the rounds, the search visits the ranks in order. A state of the search after
// rank r consists of the number of layers that ranks 0 to r have taken of each round. The load of
// rank r is the weight of all layers taken by ranks 0 to r, minus the weight of those taken by
// ranks 0 to r - 1.
#include "lib/Pipeline/StagePartition.h"
#include "lib/Pipeline/LeastLoad.h"
#include "shared/Counts.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MathExtras.h"
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

using namespace llvm;

namespace parashard::pipeline {
namespace {

/// Maximum number of cells of a `Walk` with three or more chunks per rank. A cell is a number that
/// encodes how many layers are taken of each round (`State::cell`). With more cells, the search
/// could need gigabytes of memory, so it gives up.
constexpr uint64_t kMaxCells = uint64_t(1) << 20;

constexpr int64_t kImpossible = std::numeric_limits<int64_t>::max();

/// Adds two byte counts; returns kImpossible if either is kImpossible.
int64_t addBytes(int64_t a, int64_t b) {
  return a == kImpossible || b == kImpossible ? kImpossible : a + b;
}

/// The range of layers at which each stage may begin, and the bytes sent over each cut.
struct CutRules {
  explicit CutRules(const PartitionProblem &problem) : problem(problem) {
    for (int64_t stage = 0; stage < problem.placement.getNumStages(); ++stage) {
      first.push_back(stage);
      last.push_back(stage + problem.weights.size() - problem.placement.getNumStages());
    }
  }

  /// Returns the bytes sent over the cut before `stage` if the stage begins at layer `cut`. Returns
  /// kImpossible if the rules exclude this cut.
  int64_t getBytes(int64_t stage, int64_t cut) const {
    if (cut < first[stage] || cut > last[stage])
      return kImpossible;
    const Placement &placement = problem.placement;
    return placement.getRank(stage - 1) == placement.getRank(stage) ? 0 : problem.bytes[cut - 1];
  }

  PartitionProblem problem;
  SmallVector<int64_t> first, last; ///< by stage: range of layers at which the stage may begin
};

//===----------------------------------------------------------------------===//
// Rounds
//===----------------------------------------------------------------------===//

/// A range of layers that contains one chunk of every rank. Ranks 0, 1, ... take their layers from
/// the front of the range or, if `backward`, from the back.
struct Round {
  int64_t begin = 0, end = 0; ///< range of layers
  int64_t firstStage = 0;
  int64_t ranks = 1;
  bool backward = false;

  /// Returns the layer that is taken after `taken` other layers.
  int64_t getLayer(int64_t taken) const { return backward ? end - 1 - taken : begin + taken; }
  /// Returns the cut between the first `taken` layers that are taken and the other layers. A cut is
  /// identified by the layer after the cut, in model order.
  int64_t getCut(int64_t taken) const { return backward ? end - taken : begin + taken; }
  /// Returns the stage that begins at the cut after `count` ranks.
  int64_t getStage(int64_t count) const { return firstStage + (backward ? ranks - count : count); }
  int64_t getSlack() const { return end - begin - ranks; }
};

/// Lower bounds of the bytes of the remaining cuts of one round. The value at [r][ahead] holds if
/// the first r ranks have taken r + ahead layers of the round, and no rank takes more than
/// `maxLoad`. The value is only a lower bound, because the layers of other rounds also count
/// toward the load of a rank.
using BytesToGo = std::vector<std::vector<int64_t>>;
BytesToGo findBytesToGo(const Round &round, const CutRules &rules, int64_t maxLoad) {
  ArrayRef<int64_t> weights = rules.problem.weights;
  int64_t slack = round.getSlack();
  BytesToGo toGo(round.ranks + 1, std::vector<int64_t>(slack + 1, kImpossible));
  toGo[round.ranks][slack] = 0;
  for (int64_t rank = round.ranks - 1; rank >= 0; --rank) {
    std::vector<int64_t> fromNext = toGo[rank + 1]; // plus the bytes of the cut after this rank
    for (int64_t ahead = 0; ahead <= slack && rank + 1 < round.ranks; ++ahead)
      fromNext[ahead] = addBytes(fromNext[ahead], rules.getBytes(round.getStage(rank + 1),
                                                                 round.getCut(rank + 1 + ahead)));
    for (int64_t ahead = 0; ahead <= slack; ++ahead) {
      int64_t load = 0;
      for (int64_t next = ahead; next <= slack; ++next) {
        load += weights[round.getLayer(rank + next)];
        if (load > maxLoad)
          break;
        toGo[rank][ahead] = std::min(toGo[rank][ahead], fromNext[next]);
      }
    }
  }
  return toGo;
}

/// Returns the cuts of a single round with the fewest bytes (`toGo`). If there are several, returns
/// the lexicographically first cuts. The ranks must take layers from the front.
SmallVector<int64_t> findEarliestCuts(const Round &round, const CutRules &rules,
                                      const BytesToGo &toGo) {
  SmallVector<int64_t> cuts;
  int64_t ahead = 0;
  for (int64_t rank = 1; rank < round.ranks; ++rank) {
    int64_t fewest = toGo[rank - 1][ahead];
    // Finds the first cut for which this cut and all later cuts have `fewest` bytes together. By
    // the definition of `toGo`, at least one such cut keeps the rank before the cut within the load
    // limit. With an earlier cut, this rank takes fewer layers, so the first such cut keeps the
    // limit too. `toGo` also limits the loads of later ranks.
    while (addBytes(rules.getBytes(round.getStage(rank), round.getCut(rank + ahead)),
                    toGo[rank][ahead]) != fewest)
      ++ahead;
    cuts.push_back(round.getCut(rank + ahead));
  }
  return cuts;
}

//===----------------------------------------------------------------------===//
// The search for given bounds of the rounds
//===----------------------------------------------------------------------===//

/// A state of the search after the first ranks have taken their layers.
struct State {
  /// Encodes, as one number, how many layers are taken of each round beyond one per rank.
  int64_t cell;
  /// Index, in the previous column, of the state from which `advance` reached this state.
  int64_t previous;
  int64_t weight;    ///< weight of all layers taken
  int64_t bytes = 0; ///< bytes of the cuts so far
  /// Per round: the position of this state if the states of its column are sorted by their cuts in
  /// the round. States with equal cuts have equal positions.
  SmallVector<int32_t, 4> order;
};
/// All states in which the same number of ranks have taken their layers.
using Column = std::vector<State>;

/// Memory that all walks share: the table of marks, and the number of states visited.
struct Workspace {
  std::vector<int64_t> marks; ///< by cell: largest weight of its source states; -1 if not reached
  int64_t visited = 0;
};

/// The search for given bounds of the rounds. Visits the ranks in order.
class Walk {
public:
  Walk(const CutRules &rules, ArrayRef<int64_t> bounds, Workspace &workspace)
      : rules(rules), problem(rules.problem), bounds(bounds), workspace(workspace),
        ranks(problem.placement.ranks), ahead(problem.placement.chunks) {
    for (int64_t chunk = 0; chunk < problem.placement.chunks; ++chunk) {
      bool backward = problem.placement.getRank(chunk * ranks) != 0;
      rounds.push_back({bounds[chunk], bounds[chunk + 1], chunk * ranks, ranks, backward});
    }
    for (const Round &round : rounds) {
      ranges.push_back(findRanges(round));
      int64_t size = 1;
      for (const Range &range : ranges.back())
        size = std::max(size, range.most - range.least + 1);
      sizes.push_back(size);
    }
    strides.resize(rounds.size());
    for (size_t i = rounds.size(); i-- > 0;) {
      strides[i] = cells;
      cells = SaturatingMultiply<uint64_t>(cells, sizes[i]);
    }
    remaining = std::accumulate(problem.weights.begin(), problem.weights.end(), int64_t(0));
  }

  uint64_t getNumCells() const { return cells; }

  /// Returns a list that is lexicographically at most the cuts of every partition with these bounds
  /// of the rounds. This also holds for every partition with lexicographically later bounds.
  SmallVector<int64_t> getFirstCuts() const {
    SmallVector<int64_t> cuts;
    for (int64_t stage = 1; stage < problem.placement.getNumStages(); ++stage)
      cuts.push_back(std::max(rules.first[stage], bounds[stage / ranks] + stage % ranks));
    return cuts;
  }

  /// Returns true if a partition exists in which no rank takes more than `load`.
  bool fitsLoad(int64_t load) {
    maxLoad = load;
    Column column = begin();
    for (int64_t rank = 0; rank < ranks && !column.empty(); ++rank) {
      // Visits the heaviest states first. Then each cell is visited only once, because the first
      // state that reaches a cell gives `rank` the smallest load.
      llvm::sort(column, [](const State &a, const State &b) { return a.weight > b.weight; });
      column = advance(column, rank);
    }
    return !column.empty();
  }

  /// Finds the partition with these bounds that sends the fewest bytes, where no rank exceeds
  /// `load`. Among equal partitions, finds the one with the lexicographically first cuts. Returns
  /// nullopt if no partition has at most `bytes` bytes. May also return nullopt if no such
  /// partition has cuts that are lexicographically before `cuts`.
  std::optional<StagePartition> findBest(int64_t load, int64_t bytes, ArrayRef<int64_t> cuts) {
    maxLoad = load;
    maxBytes = bytes;
    std::vector<Column> columns = {begin()};
    bytesToGo.clear();
    for (const Round &round : rounds)
      bytesToGo.push_back(findBytesToGo(round, rules, maxLoad));
    int64_t least = addBytes(getBoundBytes(), getBytesToGo(0));
    if (least > maxBytes ||
        (!cuts.empty() && least == maxBytes && cuts <= ArrayRef(getEarliestCuts())))
      return std::nullopt;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Column column = advance(columns.back(), rank);
      orderCuts(columns.back(), column, rank + 1);
      // In this order, the first state that reaches a cell gives the best partition for the cell.
      llvm::sort(column, [](const State &a, const State &b) {
        return std::tie(a.bytes, a.order) < std::tie(b.bytes, b.order);
      });
      columns.push_back(std::move(column));
    }
    if (columns.back().empty())
      return std::nullopt;
    return trace(columns);
  }

private:
  /// Returns a column with the initial state, in which no layers are taken.
  Column begin() {
    llvm::fill(ahead, 0);
    workspace.marks.resize(std::max<uint64_t>(workspace.marks.size(), cells), -1);
    return {{0, 0, 0, getBoundBytes(), SmallVector<int32_t, 4>(rounds.size())}};
  }

  /// Range of the number of layers that the first ranks take of a round, beyond one per rank.
  struct Range {
    int64_t least, most;
  };
  /// Returns the range after 0, 1, ... ranks, from the round's size and the cut rules.
  std::vector<Range> findRanges(const Round &round) const {
    int64_t slack = round.getSlack();
    std::vector<Range> found = {{0, 0}};
    for (int64_t count = 1; count < ranks; ++count) {
      int64_t stage = round.getStage(count), nearest = round.getCut(count);
      int64_t first = rules.first[stage] - nearest, last = rules.last[stage] - nearest;
      if (round.backward) // the cut moves to earlier layers
        std::tie(first, last) = std::pair(-last, -first);
      found.push_back({std::max<int64_t>(first, 0), std::min(last, slack)});
    }
    found.push_back({slack, slack});
    return found;
  }

  /// Returns the number of layers taken of round `i` in `cell`, beyond one for each of the first
  /// `count` ranks.
  int64_t getAhead(int64_t cell, size_t i, int64_t count) const {
    return ranges[i][count].least + cell / strides[i] % sizes[i];
  }

  /// Returns the bytes of the cuts between rounds. With placement V, each of these cuts has 0
  /// bytes, because the stages before and after the cut are on the same rank.
  int64_t getBoundBytes() const {
    int64_t bytes = 0;
    for (size_t i = 1; i < rounds.size(); ++i)
      bytes = addBytes(bytes, rules.getBytes(i * ranks, bounds[i]));
    return bytes;
  }

  /// Returns a list that is lexicographically at most the cuts of every partition whose rounds all
  /// have the fewest bytes (`findBytesToGo`). Considers each round separately.
  SmallVector<int64_t> getEarliestCuts() const {
    SmallVector<int64_t> cuts;
    for (Round round : rounds) {
      if (round.begin > 0)
        cuts.push_back(round.begin);
      round.backward = false; // the cuts of a single round do not depend on the direction
      cuts.append(findEarliestCuts(round, rules, findBytesToGo(round, rules, maxLoad)));
    }
    return cuts;
  }

  /// Returns a lower bound of the bytes of the remaining cuts. The first `rank` ranks have taken
  /// `ahead` layers beyond one per rank.
  int64_t getBytesToGo(int64_t rank) const {
    int64_t bytes = 0;
    for (auto [i, toGo] : llvm::enumerate(bytesToGo))
      bytes = addBytes(bytes, toGo[rank][ahead[i]]);
    return bytes;
  }

  /// Returns the states after `rank` takes its layers, starting from the states `from`. The source
  /// of each new state is the first state of `from` that reaches it.
  Column advance(const Column &from, int64_t rank) {
    to.clear();
    touched.clear();
    ranksTaken = rank + 1;
    for (auto [index, state] : llvm::enumerate(from)) {
      source = &state;
      sourceIndex = index;
      reachFrom(state);
    }
    for (int64_t cell : touched)
      workspace.marks[cell] = -1;
    workspace.visited += touched.size();
    return std::move(to);
  }

  /// Marks all cells that the next rank can reach from `state`, beginning with the fewest layers.
  void reachFrom(const State &state) {
    int64_t cell = 0, load = 0;
    for (size_t i = 0; i < rounds.size(); ++i) {
      const Range &range = ranges[i][ranksTaken];
      int64_t taken = ranksTaken - 1 + getAhead(state.cell, i, ranksTaken - 1);
      ahead[i] = std::max(taken - (ranksTaken - 1), range.least);
      if (ahead[i] > range.most)
        return;
      cell += (ahead[i] - range.least) * strides[i];
      for (; taken < ranksTaken + ahead[i]; ++taken)
        load += getWeight(i, taken);
    }
    reach(0, cell, load);
  }

  /// Marks all cells with at least the layers of `cell` in round `i` and later rounds, up to
  /// `maxLoad`. If a source of at least the same weight has already marked a cell, skips the cell
  /// and all cells with more layers. The earlier source also marked those cells, with the same or a
  /// smaller load.
  void reach(size_t i, int64_t cell, int64_t load) {
    int64_t first = ahead[i];
    for (;; cell += strides[i], ++ahead[i]) {
      if (load > maxLoad || workspace.marks[cell] >= source->weight)
        break;
      if (i + 1 < rounds.size())
        reach(i + 1, cell, load);
      else
        mark(cell, load);
      if (ahead[i] == ranges[i][ranksTaken].most)
        break;
      load += getWeight(i, ranksTaken + ahead[i]);
    }
    ahead[i] = first;
  }

  void mark(int64_t cell, int64_t load) {
    int64_t &weight = workspace.marks[cell];
    bool isNew = weight < 0;
    weight = source->weight;
    if (!isNew)
      return;
    touched.push_back(cell);
    State state{cell, sourceIndex, source->weight + load, source->bytes, {}};
    if (ranksTaken < ranks && !bytesToGo.empty()) // otherwise bytes do not matter
      for (auto [i, round] : llvm::enumerate(rounds))
        state.bytes = addBytes(state.bytes, rules.getBytes(round.getStage(ranksTaken),
                                                           round.getCut(ranksTaken + ahead[i])));
    if (canStillEnd(state))
      to.push_back(std::move(state));
  }

  /// Returns false if lower bounds show that the remaining ranks cannot take the remaining layers,
  /// or that the bytes exceed the limit.
  bool canStillEnd(const State &state) const {
    if (__int128(remaining) - state.weight > __int128(maxLoad) * (ranks - ranksTaken))
      return false;
    return bytesToGo.empty() || addBytes(state.bytes, getBytesToGo(ranksTaken)) <= maxBytes;
  }

  int64_t getWeight(size_t i, int64_t taken) const {
    return problem.weights[rounds[i].getLayer(taken)];
  }

  /// Sets `State::order`: numbers the states by the lexicographic order of their cuts in each
  /// round. Compares the number of the source state and the newest cut. In a round taken from the
  /// back, the newest cut is the first cut in model order.
  void orderCuts(const Column &from, Column &column, int64_t rank) {
    using Key = std::pair<int64_t, int64_t>;
    std::vector<std::pair<Key, size_t>> keys(column.size());
    for (auto [i, round] : llvm::enumerate(rounds)) {
      for (auto [index, state] : llvm::enumerate(column)) {
        Key key{from[state.previous].order[i], round.getCut(rank + getAhead(state.cell, i, rank))};
        keys[index] = {round.backward ? Key{key.second, key.first} : key, index};
      }
      llvm::sort(keys);
      int32_t number = 0;
      for (size_t k = 0; k < keys.size(); ++k) {
        number += k > 0 && keys[k].first != keys[k - 1].first;
        column[keys[k].second].order.push_back(number);
      }
    }
  }

  /// Builds the partition: follows the source states back from the state in which all layers are
  /// taken.
  StagePartition trace(ArrayRef<Column> columns) const {
    const State *state = &columns.back().front();
    StagePartition partition;
    partition.bytes = state->bytes;
    partition.cuts.resize(ranks * rounds.size() - 1);
    for (size_t i = 1; i < rounds.size(); ++i)
      partition.cuts[i * ranks - 1] = bounds[i];
    for (int64_t rank = ranks; rank > 0; --rank) {
      const State *before = &columns[rank - 1][state->previous];
      partition.largestLoad = std::max(partition.largestLoad, state->weight - before->weight);
      state = before;
      for (size_t i = 0; i < rounds.size() && rank > 1; ++i) {
        int64_t stage = rounds[i].getStage(rank - 1);
        partition.cuts[stage - 1] = rounds[i].getCut(rank - 1 + getAhead(state->cell, i, rank - 1));
      }
    }
    return partition;
  }

  const CutRules &rules;
  const PartitionProblem &problem;
  ArrayRef<int64_t> bounds;
  Workspace &workspace;
  int64_t ranks;
  SmallVector<Round> rounds;
  std::vector<std::vector<Range>> ranges; ///< by round
  SmallVector<int64_t> sizes, strides;    ///< by round: how `State::cell` encodes its layers
  uint64_t cells = 1;
  int64_t remaining; ///< weight of all layers

  int64_t maxLoad = 0;
  int64_t maxBytes = kImpossible;
  std::vector<BytesToGo> bytesToGo; ///< by round; empty while bytes do not matter

  // Members used in a step from one column to the next.
  const State *source = nullptr;
  int64_t sourceIndex = 0;
  int64_t ranksTaken = 0;
  SmallVector<int64_t> ahead; ///< per round: layers taken beyond one per rank
  Column to;
  std::vector<int64_t> touched; ///< marked cells
};

//===----------------------------------------------------------------------===//
// The search over the bounds of the rounds
//===----------------------------------------------------------------------===//

/// Returns a count with its noun. Examples: "1 layer", "2 layers".
std::string describeStages(const Placement &placement) {
  int64_t stages = SaturatingMultiply<uint64_t>(placement.ranks, placement.chunks) & kImpossible;
  return describeCount(stages, "stage") + " (" +
         describeCount(placement.ranks, "pipeline coordinate") + " x " +
         describeCount(placement.chunks, "chunk") + ")";
}

class Search {
public:
  explicit Search(const PartitionProblem &problem)
      : problem(problem), layers(problem.weights.size()), ranks(problem.placement.ranks),
        chunks(problem.placement.chunks), rules(problem) {}

  Expected<StagePartition> run() {
    int64_t load = findSmallestLoad();
    std::optional<StagePartition> best = findFewestBytes(load);
    if (!gaveUp && !best->cuts.empty()) {
      keepCutsEven(load, *best);
      best = findFirst(load, best->bytes);
    }
    if (!gaveUp)
      return *best;
    return createStringError(
        "the search for the best partition of " + describeCount(layers, "layer") + " into " +
        describeStages(problem.placement) +
        " is too large; use at most 2 chunks per pipeline coordinate (--num-chunks), or name the "
        "modules to cut at (--split-method NAME,...)");
  }

private:
  /// Visits all bounds of the rounds in lexicographic order while `visit` returns true.
  void walkAll(function_ref<bool(Walk &)> visit) {
    SmallVector<int64_t> bounds(chunks + 1);
    bounds[chunks] = layers;
    if (gaveUp || !fill(bounds, 1))
      return;
    do {
      Walk walk(rules, bounds, workspace);
      workspace.visited += layers; // computing lower bounds counts as this many states
      gaveUp =
          chunks > 2 && (walk.getNumCells() > kMaxCells || workspace.visited > problem.maxStates);
      if (gaveUp || !visit(walk))
        return;
    } while (moveToNext(bounds));
  }

  /// Sets each bound with index `from` or above to its smallest possible value. Each round has at
  /// least one layer per rank. Returns false if the rules exclude all bounds.
  bool fill(MutableArrayRef<int64_t> bounds, int64_t from) const {
    for (int64_t i = from; i < chunks; ++i) {
      bounds[i] = std::max(bounds[i - 1] + ranks, rules.first[i * ranks]);
      if (bounds[i] > rules.last[i * ranks])
        return false;
    }
    return true;
  }

  /// Advances to the next bounds in lexicographic order. Returns false after the last ones.
  bool moveToNext(MutableArrayRef<int64_t> bounds) const {
    for (int64_t i = chunks - 1; i > 0; --i)
      if (++bounds[i] <= rules.last[i * ranks] && fill(bounds, i + 1))
        return true;
    return false;
  }

  /// Returns the smallest possible value of the largest load. Bounds that do not improve on earlier
  /// bounds need only one call of `fitsLoad`.
  int64_t findSmallestLoad() {
    int64_t least = getLeastLoad(problem);
    int64_t best = std::accumulate(problem.weights.begin(), problem.weights.end(), int64_t(0));
    if (best == least)
      return best;
    walkAll([&](Walk &walk) {
      if (!walk.fitsLoad(best - 1))
        return true;
      int64_t low = least;
      --best;
      while (low < best) {
        int64_t middle = low + (best - low) / 2;
        if (walk.fitsLoad(middle))
          best = middle;
        else
          low = middle + 1;
      }
      return best > least;
    });
    return best;
  }

  /// Finds a partition that sends the fewest bytes, where no rank exceeds `load`.
  std::optional<StagePartition> findFewestBytes(int64_t load) {
    // Limiting the load of each stage, instead of each rank, gives a lower bound of the bytes.
    Round stages{0, layers, 0, ranks * chunks};
    int64_t least = findBytesToGo(stages, rules, load)[0][0];
    std::optional<StagePartition> best;
    walkAll([&](Walk &walk) {
      if (auto found = walk.findBest(load, best ? best->bytes - 1 : kImpossible - 1, {}))
        best = std::move(found);
      return !best || best->bytes > least;
    });
    return best;
  }

  /// Finds the partition with the lexicographically first cuts, among those with at most `bytes`
  /// bytes and loads of at most `load`.
  std::optional<StagePartition> findFirst(int64_t load, int64_t bytes) {
    std::optional<StagePartition> best;
    walkAll([&](Walk &walk) {
      if (best && best->cuts <= walk.getFirstCuts())
        return false;
      auto found = walk.findBest(load, bytes, best ? best->cuts : ArrayRef<int64_t>());
      if (found && (!best || found->cuts < best->cuts))
        best = std::move(found);
      return true;
    });
    return best;
  }

  /// Restricts the cut rules to the most even cuts that allow a partition with the load and bytes
  /// of `found`.
  void keepCutsEven(int64_t load, const StagePartition &found) {
    std::vector<__int128> distances = getDistances();
    auto getIndex = [&](const StagePartition &partition) {
      return llvm::lower_bound(distances, getDistance(partition.cuts)) - distances.begin();
    };
    int64_t low = 0, high = getIndex(found);
    // The first probe is the next smaller distance. If no partition has it, the search ends.
    for (bool middle = false; low < high && !gaveUp; middle = !middle) {
      int64_t index = middle ? (low + high) / 2 : high - 1;
      boundDistance(distances[index]);
      if (auto nearer = findAny(load, found.bytes))
        high = getIndex(*nearer);
      else
        low = index + 1;
    }
    boundDistance(distances[low]);
  }

  std::optional<StagePartition> findAny(int64_t load, int64_t bytes) {
    std::optional<StagePartition> found;
    walkAll([&](Walk &walk) {
      found = walk.findBest(load, bytes, {});
      return !found;
    });
    return found;
  }

  /// Returns the largest distance of the cuts from their even positions.
  __int128 getDistance(ArrayRef<int64_t> cuts) const {
    __int128 largest = 0;
    for (auto [i, cut] : llvm::enumerate(cuts))
      largest = std::max(largest, getDistances(i + 1)[cut]);
    return largest;
  }

  /// Returns, for each layer, the distance between a cut before the layer and the even start of
  /// `stage`. The distance is multiplied by the number of stages, so that it is an integer.
  SmallVector<__int128> getDistances(int64_t stage) const {
    int64_t total = std::accumulate(problem.weights.begin(), problem.weights.end(), int64_t(0));
    SmallVector<__int128> distances;
    __int128 before = 0;
    for (int64_t weight : problem.weights) {
      __int128 distance = before * (ranks * chunks) - __int128(total) * stage;
      distances.push_back(distance < 0 ? -distance : distance);
      before += weight;
    }
    return distances;
  }

  /// Returns the sorted distances of all possible cuts.
  std::vector<__int128> getDistances() const {
    CutRules all(problem);
    std::set<__int128> distances;
    for (int64_t stage = 1; stage < ranks * chunks; ++stage) {
      SmallVector<__int128> ofStage = getDistances(stage);
      distances.insert(ofStage.begin() + all.first[stage], ofStage.begin() + all.last[stage] + 1);
    }
    return {distances.begin(), distances.end()};
  }

  void boundDistance(__int128 distance) {
    rules = CutRules(problem);
    for (int64_t stage = 1; stage < ranks * chunks; ++stage) {
      SmallVector<__int128> distances = getDistances(stage);
      while (rules.first[stage] < rules.last[stage] && distances[rules.first[stage]] > distance)
        ++rules.first[stage];
      while (rules.first[stage] <= rules.last[stage] && distances[rules.last[stage]] > distance)
        --rules.last[stage];
    }
  }

  const PartitionProblem &problem;
  int64_t layers, ranks, chunks;
  CutRules rules;
  Workspace workspace;
  bool gaveUp = false;
};

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

Error checkPlacement(const Placement &placement, int64_t layers) {
  if (placement.ranks < 1)
    return createStringError("a pipeline of " + Twine(placement.ranks) +
                             " coordinates; use at least 1");
  if (placement.chunks < 1)
    return createStringError(Twine(placement.chunks) +
                             " chunks per pipeline coordinate; use at least 1");
  if (layers < 1)
    return createStringError("a model without layers has no stages");
  if (placement.ranks > layers / placement.chunks)
    return createStringError("the pipeline has " + describeStages(placement) +
                             ", but the model has " + describeCount(layers, "layer") +
                             "; use at most " + describeCount(layers, "stage"));
  return Error::success();
}

/// Checks that all numbers are at least 0, and that their sum does not overflow. For errors,
/// `of(i)` describes the owner of `numbers[i]`, such as "layer 3".
Error checkNumbers(ArrayRef<int64_t> numbers, StringRef noun,
                   function_ref<std::string(size_t)> of) {
  int64_t sum = 0;
  for (auto [i, number] : llvm::enumerate(numbers)) {
    if (number < 0)
      return createStringError(noun + " " + Twine(number) + " of " + of(i) +
                               "; expected at least 0");
    if (AddOverflow(sum, number, sum) || sum == kImpossible)
      return createStringError("the sum of " + noun + "s up to " + of(i) + " exceeds 2^63 - 2");
  }
  return Error::success();
}

Error checkProblem(const PartitionProblem &problem) {
  size_t layers = problem.weights.size();
  if (Error error = checkPlacement(problem.placement, layers))
    return error;
  if (problem.bytes.size() != layers - 1)
    return createStringError("got " + describeCount(problem.bytes.size(), "byte count") +
                             " of layer boundaries for " + describeCount(layers, "layer") +
                             "; expected " + Twine(layers - 1));
  if (Error error = checkNumbers(problem.weights, "weight",
                                 [](size_t i) { return ("layer " + Twine(i)).str(); }))
    return error;
  return checkNumbers(problem.bytes, "byte count", [](size_t i) {
    return ("the boundary between layers " + Twine(i) + " and " + Twine(i + 1)).str();
  });
}

} // namespace

Expected<StagePartition> findPartition(const PartitionProblem &problem) {
  if (Error error = checkProblem(problem))
    return std::move(error);
  return Search(problem).run();
}

//===----------------------------------------------------------------------===//
// Cuts at names
//===----------------------------------------------------------------------===//

namespace {
/// Returns true if the module `path` is `module` or inside it.
bool isWithin(StringRef path, StringRef module) {
  return path.consume_front(module) && (path.empty() || path.front() == '.');
}

/// Returns the first layer of the module `name`. Fails if there is none, or if the layers of the
/// module are not consecutive.
Expected<int64_t> findFirstLayer(ArrayRef<std::string> layers, const std::string &name) {
  int64_t first = -1, last = -1;
  for (auto [i, layer] : llvm::enumerate(layers)) {
    if (!isWithin(layer, name))
      continue;
    if (first >= 0 && last + 1 != int64_t(i))
      return createStringError("module '" + name + "' contains layers " + Twine(last) + " and " +
                               Twine(i) +
                               " but not the layers between them; give the path of one layer");
    first = first < 0 ? i : first;
    last = i;
  }
  if (first >= 0 && !name.empty())
    return first;
  for (const std::string &layer : layers)
    if (!layer.empty() && isWithin(name, layer))
      return createStringError("module '" + Twine(name) + "' is inside the layer '" + layer +
                               "', which cannot be cut; give the path of a layer");
  std::vector<std::string> named;
  for (const std::string &layer : layers)
    if (!layer.empty() && !llvm::is_contained(named, layer))
      named.push_back(layer);
  return createStringError("no layer has the module path '" + name + "'" +
                           describeNearest(name, named));
}
} // namespace

bool isBalanced(StringRef method) {
  return is_contained({"uniform", "parameters", "flops", "time"}, method);
}

Expected<SmallVector<int64_t>> findCutsAtNames(ArrayRef<std::string> layers,
                                               ArrayRef<std::string> names,
                                               const Placement &placement) {
  if (Error error = checkPlacement(placement, layers.size()))
    return std::move(error);
  int64_t expected = placement.getNumStages() - 1;
  if (int64_t(names.size()) != expected)
    return createStringError(describeStages(placement) + " need " +
                             describeCount(expected, "module") + " to cut at, got " +
                             Twine(names.size()));
  SmallVector<int64_t> cuts;
  for (auto [i, name] : llvm::enumerate(names)) {
    Expected<int64_t> cut = findFirstLayer(layers, name);
    if (!cut)
      return cut.takeError();
    if (*cut == 0)
      return createStringError("module '" + name +
                               "' is the model's first layer, which needs no cut; remove the name");
    if (llvm::is_contained(names.take_front(i), name))
      return createStringError("module '" + name + "' is given twice; give each module once");
    if (!cuts.empty() && cuts.back() == *cut)
      return createStringError("modules '" + names[i - 1] + "' and '" + name +
                               "' begin at the same layer; remove one of them");
    if (!cuts.empty() && cuts.back() > *cut)
      return createStringError("module '" + name + "' comes before '" + names[i - 1] +
                               "' in the model; give the modules in model order");
    cuts.push_back(*cut);
  }
  return cuts;
}

} // namespace parashard::pipeline
