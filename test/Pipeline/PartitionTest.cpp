// Tests that stage partitions are optimal for every placement.
#include "lib/Pipeline/StagePartition.h"
#include "gtest/gtest.h"
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

using namespace parashard::pipeline;

namespace {
using Numbers = std::vector<int64_t>;

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

/// Returns the largest distance of a cut from its position in an even split: the distance in
/// weight, multiplied by the number of stages.
__int128 getDistance(const Numbers &weights, llvm::ArrayRef<int64_t> cuts) {
  Numbers before(weights.size());
  std::partial_sum(weights.begin(), weights.end() - 1, before.begin() + 1);
  __int128 total = before.back() + weights.back(), stages = cuts.size() + 1, largest = 0;
  for (size_t i = 0; i < cuts.size(); ++i) {
    __int128 distance = before[cuts[i]] * stages - total * (i + 1);
    largest = std::max(largest, distance < 0 ? -distance : distance);
  }
  return largest;
}

auto getObjectives(const StagePartition &partition) {
  return std::tie(partition.largestLoad, partition.bytes, partition.cuts);
}

/// Returns the best partition by evaluating every list of cuts.
StagePartition findByTrial(const Numbers &weights, const Numbers &bytes, Placement placement) {
  int64_t layers = weights.size();
  llvm::SmallVector<int64_t> cuts(placement.getNumStages() - 1);
  std::iota(cuts.begin(), cuts.end(), 1);
  std::optional<StagePartition> best;
  for (;;) {
    StagePartition partition = measure(weights, bytes, cuts, placement);
    auto getAll = [&](const StagePartition &of) {
      return std::tuple(of.largestLoad, of.bytes, getDistance(weights, of.cuts), of.cuts);
    };
    if (!best || getAll(partition) < getAll(*best))
      best = partition;
    size_t i = cuts.size();
    while (i > 0 && cuts[i - 1] == layers - int64_t(cuts.size() - i) - 1)
      --i;
    if (i == 0)
      return *best;
    std::iota(cuts.begin() + i - 1, cuts.end(), cuts[i - 1] + 1);
  }
}

/// Returns random numbers of a random kind: small with zeros and repetitions, all equal, mostly
/// equal, below 1000, or up to 2^58.
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

void compareWithTrial(uint64_t seed, int64_t maxLayers, Placement placement) {
  std::mt19937_64 random(seed);
  int64_t stages = placement.getNumStages();
  int64_t layers = stages + random() % (maxLayers - stages + 1);
  Numbers weights = makeNumbers(random, layers), bytes = makeNumbers(random, layers - 1);
  StagePartition found = find(weights, bytes, placement);
  ASSERT_EQ(getObjectives(found), getObjectives(findByTrial(weights, bytes, placement)))
      << "seed " << seed << ": " << layers << " layers, " << placement.ranks << " ranks x "
      << placement.chunks << " chunks, " << (placement.kind == PlacementKind::V ? "V" : "loop");
}

void compareWithTrials(int64_t seeds, int64_t maxLayers, int64_t maxRanks, int64_t chunks) {
  for (PlacementKind kind : {PlacementKind::Loop, PlacementKind::V})
    for (int64_t ranks = 1; ranks <= maxRanks; ++ranks)
      for (int64_t seed = 0; seed < seeds; ++seed)
        compareWithTrial(seed, maxLayers, {kind, ranks, chunks});
}

/// Finds a partition. Checks that the search takes less than 10 seconds and that its objectives are
/// correct.
StagePartition findInTime(const Numbers &weights, const Numbers &bytes, Placement placement) {
  auto begin = std::chrono::steady_clock::now();
  StagePartition found = find(weights, bytes, placement);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 10); // hundredths of a second in optimized builds
  EXPECT_EQ(getObjectives(found), getObjectives(measure(weights, bytes, found.cuts, placement)));
  return found;
}

Numbers makeRandom(int64_t count, int64_t below) {
  std::mt19937_64 random(count);
  Numbers numbers(count);
  for (int64_t &number : numbers)
    number = random() % below;
  return numbers;
}

/// Returns the weights of an embedding without work, equal blocks and a head.
Numbers makeModel(int64_t layers, int64_t block, int64_t head) {
  Numbers weights(layers, block);
  weights.front() = 0;
  weights.back() = head;
  return weights;
}
} // namespace

//===----------------------------------------------------------------------===//
// Comparison with all partitions
//===----------------------------------------------------------------------===//

TEST(Partition, OneChunkIsOptimal) { compareWithTrials(150, 12, 6, 1); }
TEST(Partition, TwoChunksAreOptimal) { compareWithTrials(150, 12, 4, 2); }
TEST(Partition, ThreeChunksAreOptimal) { compareWithTrials(100, 13, 4, 3); }
TEST(Partition, FourChunksAreOptimal) { compareWithTrials(60, 14, 3, 4); }
TEST(Partition, FiveChunksAreOptimal) { compareWithTrials(40, 14, 2, 5); }

TEST(Partition, AsManyStagesAsLayersGiveOneLayerEach) {
  compareWithTrial(1, 8, {PlacementKind::Loop, 4, 2}); // as many layers as stages
  compareWithTrial(1, 9, {PlacementKind::V, 3, 3});
}

//===----------------------------------------------------------------------===//
// Values computed by hand
//===----------------------------------------------------------------------===//

TEST(Partition, UniformLayersAreCutNearAnEvenSplit) {
  StagePartition found = find(Numbers(7, 1), Numbers(6, 8), {PlacementKind::Loop, 3, 1});
  EXPECT_EQ(found.largestLoad, 3);
  EXPECT_EQ(found.bytes, 16);
  EXPECT_EQ(found.cuts, (llvm::SmallVector<int64_t>{2, 5})); // nearest to 7/3 and 14/3
}

TEST(Partition, BytesDecideAmongEqualLoads) {
  StagePartition found = find(Numbers(7, 1), {9, 9, 1, 9, 2, 9}, {PlacementKind::Loop, 3, 1});
  EXPECT_EQ(found.cuts, (llvm::SmallVector<int64_t>{3, 5}));
  EXPECT_EQ(found.bytes, 3);
}

TEST(Partition, TheTurnOfAVPlacementSendsNothing) {
  StagePartition v = find({3, 1, 1, 3}, {10, 100, 10}, {PlacementKind::V, 2, 2});
  EXPECT_EQ(v.largestLoad, 6);
  EXPECT_EQ(v.bytes, 20);
  StagePartition loop = find({3, 1, 1, 3}, {10, 100, 10}, {PlacementKind::Loop, 2, 2});
  EXPECT_EQ(loop.largestLoad, 4);
  EXPECT_EQ(loop.bytes, 120);
}

TEST(Partition, OneRankSendsNothing) {
  StagePartition found = find(Numbers(90, 3), Numbers(89, 8), {PlacementKind::Loop, 1, 8});
  EXPECT_EQ(found.largestLoad, 270);
  EXPECT_EQ(found.bytes, 0);
}

TEST(Partition, LayersWithoutWeightAreCutAtTheFewestBytes) {
  StagePartition found = find({0, 0, 0, 0}, {5, 1, 5}, {PlacementKind::Loop, 2, 1});
  EXPECT_EQ(found.largestLoad, 0);
  EXPECT_EQ(found.cuts, (llvm::SmallVector<int64_t>{2}));
}

TEST(Partition, SumsUpToTheLargestNumberAreExact) {
  int64_t half = std::numeric_limits<int64_t>::max() / 2;
  StagePartition found = find({half, half - 1, 1}, {half, half}, {PlacementKind::Loop, 2, 1});
  EXPECT_EQ(found.largestLoad, half);
  EXPECT_EQ(found.cuts, (llvm::SmallVector<int64_t>{1}));
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

TEST(Partition, ManyLayersAreFast) {
  Numbers bytes95 = makeRandom(95, 1000), bytes499 = makeRandom(499, 1000);
  for (int64_t below : Numbers{2, 1000, int64_t(1) << 50}) {
    for (PlacementKind kind : {PlacementKind::Loop, PlacementKind::V})
      findInTime(makeRandom(96, below), bytes95, {kind, 16, 2});
    findInTime(makeRandom(500, below), bytes499, {PlacementKind::Loop, 64, 1});
  }
}

TEST(Partition, EqualBlocksInManyChunksAreFast) {
  for (PlacementKind kind : {PlacementKind::Loop, PlacementKind::V}) {
    findInTime(Numbers(96, 7), Numbers(95, 9), {kind, 8, 6});
    StagePartition found = findInTime(makeModel(96, 100, 545), Numbers(95, 9), {kind, 8, 4});
    EXPECT_EQ(found.largestLoad,
              1300); // 94 blocks: seven ranks with 13 blocks, one with 3 and the head
  }
}

TEST(Partition, LayersWithoutWeightAreFast) {
  StagePartition found = findInTime(Numbers(96, 0), Numbers(95, 1), {PlacementKind::Loop, 8, 6});
  llvm::SmallVector<int64_t> first(47);
  std::iota(first.begin(), first.end(), 1);
  EXPECT_EQ(found.cuts, first);
}

TEST(Partition, ReportsATooLargeSearch) {
  Numbers weights = makeRandom(96, 1 << 20), bytes(95, 1);
  PartitionProblem problem{weights, bytes, {PlacementKind::Loop, 4, 3}};
  problem.maxStates = 100000;
  EXPECT_EQ(
      getError(findPartition(problem)),
      "the search for the best partition of 96 layers into 12 stages (4 pipeline coordinates x 3 "
      "chunks) is too large; use at most 2 chunks per pipeline coordinate (--num-chunks), or "
      "name the modules to cut at (--split-method NAME,...)");
  problem.placement.chunks = 2;
  EXPECT_EQ(getError(findPartition(problem)), "no error");
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

namespace {
std::string getPartitionError(const Numbers &weights, const Numbers &bytes, int64_t ranks,
                              int64_t chunks) {
  return getError(findPartition({weights, bytes, {PlacementKind::Loop, ranks, chunks}}));
}
} // namespace

TEST(Partition, ChecksCounts) {
  Numbers six(6, 1), five(5, 1);
  EXPECT_EQ(getPartitionError(six, five, 4, 2),
            "the pipeline has 8 stages (4 pipeline coordinates x 2 chunks), but the model has 6 "
            "layers; use at most 6 stages");
  EXPECT_EQ(getPartitionError({1}, {}, 2, 1), "the pipeline has 2 stages (2 pipeline coordinates x "
                                              "1 chunk), but the model has 1 layer; use at "
                                              "most 1 stage");
  EXPECT_EQ(getPartitionError(six, five, int64_t(1) << 62, 4),
            "the pipeline has 9223372036854775807 stages (4611686018427387904 pipeline coordinates "
            "x 4 chunks), but the model has 6 layers; use at most 6 stages");
  EXPECT_EQ(getPartitionError(six, five, 0, 2), "a pipeline of 0 coordinates; use at least 1");
  EXPECT_EQ(getPartitionError(six, five, 2, -1),
            "-1 chunks per pipeline coordinate; use at least 1");
  EXPECT_EQ(getPartitionError({}, {}, 1, 1), "a model without layers has no stages");
  EXPECT_EQ(getPartitionError(six, six, 2, 1),
            "got 6 byte counts of layer boundaries for 6 layers; expected 5");
}

TEST(Partition, ChecksWeightsAndBytes) {
  int64_t largest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(getPartitionError({1, -2, 3}, {1, 1}, 2, 1),
            "weight -2 of layer 1; expected at least 0");
  EXPECT_EQ(getPartitionError({1, 2, 3}, {1, -7}, 2, 1),
            "byte count -7 of the boundary between layers 1 and 2; expected at least 0");
  EXPECT_EQ(getPartitionError({1, 2, largest}, {1, 1}, 2, 1),
            "the sum of weights up to layer 2 exceeds 2^63 - 2");
  EXPECT_EQ(getPartitionError({1, 2, 3}, {largest, 1}, 2, 1),
            "the sum of byte counts up to the boundary between layers 0 and 1 exceeds 2^63 - 2");
}

//===----------------------------------------------------------------------===//
// Cuts at names
//===----------------------------------------------------------------------===//

namespace {
const std::vector<std::string> layers = {"transformer.wte", "transformer.h.0",  "transformer.h.1",
                                         "transformer.h.2", "transformer.h.10", "",
                                         "lm_head"};

llvm::SmallVector<int64_t> cutAt(const std::vector<std::string> &names) {
  return llvm::cantFail(
      findCutsAtNames(layers, names, {PlacementKind::Loop, int64_t(names.size()) + 1, 1}));
}
std::string getCutError(const std::vector<std::string> &names) {
  return getError(
      findCutsAtNames(layers, names, {PlacementKind::Loop, int64_t(names.size()) + 1, 1}));
}
} // namespace

TEST(CutsAtNames, AcceptsLayersAndModulesThatHoldLayers) {
  EXPECT_EQ(cutAt({"transformer.h.1", "lm_head"}), (llvm::SmallVector<int64_t>{2, 6}));
  EXPECT_EQ(cutAt({"transformer.h"}), (llvm::SmallVector<int64_t>{1}));
  EXPECT_EQ(cutAt({"transformer.h.10"}), (llvm::SmallVector<int64_t>{4}));
  EXPECT_TRUE(cutAt({}).empty());
}

TEST(CutsAtNames, UnknownNamesAreReportedWithTheNearestNames) {
  EXPECT_EQ(
      getCutError({"transformer.h.3"}),
      "no layer has the module path 'transformer.h.3'; the nearest names are 'transformer.h.0', "
      "'transformer.h.1' and 'transformer.h.2'");
  EXPECT_EQ(getCutError({"transformer.h.1.attn"}),
            "module 'transformer.h.1.attn' is inside the layer 'transformer.h.1', which cannot be "
            "cut; give the path of a layer");
  EXPECT_EQ(getCutError({""}).substr(0, 31), "no layer has the module path ''");
}

TEST(CutsAtNames, NamesMustBeInOrderAndUnique) {
  EXPECT_EQ(getCutError({"transformer.h.1", "lm_head", "transformer.h.1"}),
            "module 'transformer.h.1' is given twice; give each module once");
  EXPECT_EQ(getCutError({"transformer.h", "transformer.h.0"}),
            "modules 'transformer.h' and 'transformer.h.0' begin at the same layer; remove one "
            "of them");
  EXPECT_EQ(getCutError({"transformer.h.2", "transformer.h.1"}),
            "module 'transformer.h.1' comes before 'transformer.h.2' in the model; give the "
            "modules in model order");
}

TEST(CutsAtNames, RejectsACutAtTheFirstLayer) {
  EXPECT_EQ(getCutError({"transformer.wte"}),
            "module 'transformer.wte' is the model's first layer, which needs no cut; remove "
            "the name");
}

TEST(CutsAtNames, LayersOfAModuleMustBeContiguous) {
  EXPECT_EQ(getError(findCutsAtNames({"x", "a.0", "b", "a.1"}, {"a"}, {PlacementKind::V, 2, 1})),
            "module 'a' contains layers 1 and 3 but not the layers between them; give the path of "
            "one layer");
  EXPECT_EQ(getError(findCutsAtNames({"a.0", "a.1", "b", "a.2"}, {"a"}, {PlacementKind::V, 2, 1})),
            "module 'a' contains layers 1 and 3 but not the layers between them; give the path of "
            "one layer");
}

TEST(CutsAtNames, NeedsOneNameLessThanStages) {
  EXPECT_EQ(getError(findCutsAtNames(layers, {"lm_head"}, {PlacementKind::V, 2, 2})),
            "4 stages (2 pipeline coordinates x 2 chunks) need 3 modules to cut at, got 1");
  EXPECT_EQ(getError(findCutsAtNames(layers, {"lm_head"}, {PlacementKind::V, 4, 2})),
            "the pipeline has 8 stages (4 pipeline coordinates x 2 chunks), but the model has 7 "
            "layers; use at most 7 stages");
}
