// Computes a lower bound of the largest load of a pipeline's ranks.
#include "lib/Pipeline/LeastLoad.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <numeric>
#include <set>

using namespace llvm;

namespace parashard::pipeline {
namespace {

/// Computes an upper bound of the total weight that fits on all ranks if no rank has more than a
/// given load. Most layers are blocks of equal weight; the other layers are irregular. Example:
/// blocks of weight 4 and one head of weight 3 on 2 ranks. With a load of at most 7, the rank with
/// the head has 4 + 3 and the other rank has 4, so the capacity is 11.
class Capacity {
public:
  Capacity(ArrayRef<int64_t> weights, int64_t ranks) : ranks(ranks), block(findBlock(weights)) {
    for (int64_t weight : weights)
      if (weight % block != 0)
        addIrregular(weight);
  }

  __int128 get(int64_t load) const {
    int64_t most = fill(load, 0);
    for (int64_t remainder : remainders)
      most = std::max(most, fill(load, remainder));
    int64_t withIrregular = std::min(irregular, ranks);
    return __int128(maxRemainders < remainders.size() ? load : most) * withIrregular +
           __int128(fill(load, 0)) * (ranks - withIrregular);
  }

private:
  static constexpr size_t maxRemainders = 1024;

  /// Returns the most frequent positive weight, or 1 if there is none.
  static int64_t findBlock(ArrayRef<int64_t> weights) {
    std::map<int64_t, int64_t> counts;
    for (int64_t weight : weights)
      if (weight > 0)
        ++counts[weight];
    auto most =
        llvm::max_element(counts, [](const auto &a, const auto &b) { return a.second < b.second; });
    return most == counts.end() ? 1 : most->first;
  }

  void addIrregular(int64_t weight) {
    ++irregular;
    if (remainders.size() > maxRemainders)
      return;
    int64_t own = weight % block;
    std::set<int64_t> sums = {own};
    for (int64_t remainder : remainders)
      sums.insert(remainder < block - own ? remainder + own : remainder - (block - own));
    remainders.insert(sums.begin(), sums.end());
  }

  /// Returns the largest weight up to `load` that is `remainder` plus a multiple of the weight of a
  /// block; 0 if there is none. Example: with blocks of weight 4, load 9 and remainder 3 give 7.
  int64_t fill(int64_t load, int64_t remainder) const {
    return load < remainder ? 0 : load - (load - remainder) % block;
  }

  int64_t ranks, block;
  int64_t irregular = 0;          ///< number of layers whose weight is not a multiple of `block`
  std::set<int64_t> remainders{}; ///< sums of irregular weights, modulo `block`
};

/// Returns the smallest load at which the capacity of all ranks is at least the weight of all
/// layers.
int64_t getLoadOfCapacity(ArrayRef<int64_t> weights, int64_t ranks) {
  Capacity capacity(weights, ranks);
  int64_t total = std::accumulate(weights.begin(), weights.end(), int64_t(0));
  int64_t low = 0, high = total;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (capacity.get(middle) >= total)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// Computes a lower bound of the load of the rank with the heaviest layer. This rank also has at
/// least one layer in each of its other stages. Every stage has at least one layer, so the layers
/// of stage s have indices from s to s + `slack`. `slack` is the number of layers minus the number
/// of stages.
class HeaviestLayer {
public:
  explicit HeaviestLayer(const PartitionProblem &problem)
      : weights(problem.weights), placement(problem.placement),
        slack(weights.size() - placement.getNumStages()),
        heaviest(llvm::max_element(weights) - weights.begin()) {}

  int64_t getLeastLoad() const {
    int64_t first = std::max<int64_t>(heaviest - slack, 0);
    int64_t last = std::min(heaviest, placement.getNumStages() - 1);
    int64_t least = getLeastLoad(first);
    for (int64_t stage = first + 1; stage <= last; ++stage)
      least = std::min(least, getLeastLoad(stage));
    return least;
  }

private:
  /// Returns a lower bound of the load if the heaviest layer is in `stage`.
  int64_t getLeastLoad(int64_t stage) const {
    int64_t load = weights[heaviest], rank = placement.getRank(stage);
    for (int64_t chunk = 0; chunk < placement.chunks; ++chunk)
      if (int64_t other = placement.getStage(rank, chunk); other != stage)
        load += getLightest(other, stage);
    return load;
  }

  /// Returns the weight of the lightest layer that can be in stage `other` while the heaviest layer
  /// is in `stage`.
  int64_t getLightest(int64_t other, int64_t stage) const {
    int64_t first = other, last = other + slack;
    int64_t apart = heaviest + other - stage;
    if (other < stage)
      last = std::min(last, apart);
    else
      first = std::max(first, apart);
    return *llvm::min_element(weights.slice(first, last - first + 1));
  }

  ArrayRef<int64_t> weights;
  Placement placement;
  int64_t slack;
  int64_t heaviest;
};

} // namespace

int64_t getLeastLoad(const PartitionProblem &problem) {
  return std::max(getLoadOfCapacity(problem.weights, problem.placement.ranks),
                  HeaviestLayer(problem).getLeastLoad());
}

} // namespace parashard::pipeline
