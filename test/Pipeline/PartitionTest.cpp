// Tests of stage partitions: as good as the best of all partitions, for every placement.
#include "lib/Pipeline/Partition.h"
#include "gtest/gtest.h"
#include <chrono>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

using namespace parashard::pipeline;

namespace {
using Numbers = std::vector<int64_t>;

std::string getError(llvm::Error error) { return llvm::toString(std::move(error)); }
template <typename T> std::string getError(llvm::Expected<T> value) {
  return value ? "no error" : llvm::toString(value.takeError());
}

StagePartition find(const Numbers &weights, const Numbers &bytes, Placement placement) {
  return llvm::cantFail(findPartition({weights, bytes, placement}));
}

Numbers getLoads(const Numbers &weights, llvm::ArrayRef<int64_t> cuts, Placement placement) {
  Numbers loads(placement.ranks);
  int64_t stage = 0;
  for (size_t layer = 0; layer < weights.size(); ++layer) {
    stage += stage < int64_t(cuts.size()) && cuts[stage] == int64_t(layer);
    loads[placement.getRank(stage)] += weights[layer];
  }
  return loads;
}

int64_t getBytes(const Numbers &bytes, llvm::ArrayRef<int64_t> cuts, Placement placement) {
  int64_t sum = 0;
  for (size_t i = 0; i < cuts.size(); ++i)
    if (placement.getRank(i) != placement.getRank(i + 1))
      sum += bytes[cuts[i] - 1];
  return sum;
}

StagePartition measure(const Numbers &weights, const Numbers &bytes, llvm::ArrayRef<int64_t> cuts,
                       Placement placement) {
  Numbers loads = getLoads(weights, cuts, placement);
  return {llvm::SmallVector<int64_t>(cuts), *std::max_element(loads.begin(), loads.end()),
          getBytes(bytes, cuts, placement)};
}

auto getObjectives(const StagePartition &partition) {
  return std::tie(partition.largestLoad, partition.bytes, partition.cuts);
}

/// The best of all lists of cuts.
StagePartition findByTrial(const Numbers &weights, const Numbers &bytes, Placement placement) {
  int64_t layers = weights.size();
  llvm::SmallVector<int64_t> cuts(placement.getNumStages() - 1);
  std::iota(cuts.begin(), cuts.end(), 1);
  std::optional<StagePartition> best;
  for (;;) {
    StagePartition partition = measure(weights, bytes, cuts, placement);
    if (!best || getObjectives(partition) < getObjectives(*best))
      best = partition;
    size_t i = cuts.size();
    while (i > 0 && cuts[i - 1] == layers - int64_t(cuts.size() - i) - 1)
      --i;
    if (i == 0)
      return *best;
    std::iota(cuts.begin() + i - 1, cuts.end(), cuts[i - 1] + 1);
  }
}

/// Random numbers of a kind each: small with zeros and repetitions, one of two values, wide ones.
Numbers makeNumbers(std::mt19937_64 &random, int64_t count) {
  Numbers numbers(count);
  int64_t kind = random() % 5;
  int64_t value = random() % 100;
  for (int64_t &number : numbers)
    number = kind == 0   ? random() % 4
             : kind == 1 ? value
             : kind == 2 ? (random() % 4 == 0 ? random() % 1000 : value)
             : kind == 3 ? random() % 1000
                         : random() % (int64_t(1) << 58);
  return numbers;
}

void compareWithTrial(uint64_t seed, int64_t mostLayers, Placement placement) {
  std::mt19937_64 random(seed);
  int64_t stages = placement.getNumStages();
  int64_t layers = stages + random() % (mostLayers - stages + 1);
  Numbers weights = makeNumbers(random, layers), bytes = makeNumbers(random, layers - 1);
  StagePartition found = find(weights, bytes, placement);
  ASSERT_EQ(getObjectives(found), getObjectives(findByTrial(weights, bytes, placement)))
      << "seed " << seed << ": " << layers << " layers, " << placement.ranks << " ranks x "
      << placement.chunks << " chunks, " << (placement.kind == PlacementKind::V ? "V" : "loop");
}

void compareWithTrials(int64_t seeds, int64_t mostLayers, int64_t mostRanks, int64_t chunks) {
  for (PlacementKind kind : {PlacementKind::Loop, PlacementKind::V})
    for (int64_t ranks = 1; ranks <= mostRanks; ++ranks)
      for (int64_t seed = 0; seed < seeds; ++seed)
        compareWithTrial(seed, mostLayers, {kind, ranks, chunks});
}

/// Seconds that the search takes; its result must hold what it says.
double timeSearch(const Numbers &weights, const Numbers &bytes, Placement placement) {
  auto begin = std::chrono::steady_clock::now();
  StagePartition found = find(weights, bytes, placement);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(getObjectives(found), getObjectives(measure(weights, bytes, found.cuts, placement)));
  return seconds.count();
}

/// Equal blocks between an embedding without work and a head of several blocks' weight.
Numbers makeModel(int64_t layers, int64_t block, int64_t head) {
  Numbers weights(layers, block);
  weights.front() = 0;
  weights.back() = head;
  return weights;
}
} // namespace

//===----------------------------------------------------------------------===//
// Against all partitions
//===----------------------------------------------------------------------===//

TEST(Partition, OneChunkIsAsGoodAsTheBestOfAll) { compareWithTrials(150, 12, 6, 1); }
TEST(Partition, TwoChunksAreAsGoodAsTheBestOfAll) { compareWithTrials(150, 12, 4, 2); }
TEST(Partition, ThreeChunksAreAsGoodAsTheBestOfAll) { compareWithTrials(100, 13, 4, 3); }
TEST(Partition, FourChunksAreAsGoodAsTheBestOfAll) { compareWithTrials(60, 14, 3, 4); }
TEST(Partition, FiveChunksAreAsGoodAsTheBestOfAll) { compareWithTrials(40, 14, 2, 5); }
