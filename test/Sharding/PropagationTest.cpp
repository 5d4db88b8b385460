// Tests the propagation of splits on graphs of plain nodes and rules: through each kind of op, in
// both directions, and where tensors disagree.
#include "lib/Sharding/Propagation.h"
#include "MeshTest.h"
#include <cctype>

using namespace mlir;
using namespace parashard::ps;
using namespace parashard::sharding;

namespace {

/// A graph whose ops are written as in einops: one letter per factor, parentheses around the
/// factors of one dim. Factors that no result has are summed. A capital letter is a factor that
/// cannot be split. Example: `(hd)k nk -> nhd` with sizes h=4, d=2, k=8, n=6.
class PropagationTest : public testing::Test {
protected:
  PropagationTest() { graph.mesh = mesh.shape; }

  /// Adds a tensor of 4-byte elements that takes the splits of its neighbors.
  int add(ArrayRef<int64_t> shape) {
    ShardingNode node;
    node.shape.assign(shape.begin(), shape.end());
    node.bytes = 4;
    for (int64_t size : shape) {
      node.bytes *= size;
      node.splits.push_back(wholeSplit(size));
    }
    graph.nodes.push_back(std::move(node));
    return graph.nodes.size() - 1;
  }
  /// Adds a tensor whose splits are given.
  int seed(const TensorSplits &splits) {
    SmallVector<int64_t> shape;
    for (const Split &split : splits) {
      shape.push_back(1);
      for (const SubFactor &factor : split)
        shape.back() *= factor.size;
    }
    int node = add(shape);
    graph.nodes[node].splits = splits;
    graph.nodes[node].fixed = true;
    return node;
  }

  /// Adds an op with this rule, which is linear in each of the operands `linear`.
  ShardingEdge &connect(StringRef text, ArrayRef<int> operands, ArrayRef<int> results,
                        ArrayRef<unsigned> linear = {}) {
    ShardingEdge edge;
    edge.operands.assign(operands.begin(), operands.end());
    edge.results.assign(results.begin(), results.end());
    auto rule = std::make_unique<ShardingRule>();
    std::map<char, unsigned> factors;
    auto [left, right] = text.split(" -> ");
    parse(right, results, *rule, factors, /*isResult=*/true);
    parse(left, operands, *rule, factors, /*isResult=*/false);
    for (unsigned i : linear)
      rule->linear.push_back({i});
    edge.rule = std::move(rule);
    for (int node : llvm::concat<const int>(operands, results))
      graph.nodes[node].edges.push_back(graph.edges.size());
    graph.edges.push_back(std::move(edge));
    return graph.edges.back();
  }

  std::string splitsOf(int node) { return print(graph.nodes[node].splits); }
  Split whole(int64_t size) { return {mesh.factor(size)}; }
  Split over(int64_t size, ArrayRef<StringRef> axes) { return {mesh.factor(size, axes)}; }

  TestMesh mesh{R"("dp" = 2 : data, "tp" = 2 : tensor, "three" = 3 : tensor)"};
  ShardingGraph graph;
  /// Sizes of factors by letter, for dims of several factors. Other factors have the dim's size.
  std::map<char, int64_t> sizes;

private:
  unsigned getFactor(char letter, int64_t size, ShardingRule &rule,
                     std::map<char, unsigned> &factors, bool isResult) {
    auto known = factors.find(letter);
    if (known != factors.end())
      return known->second;
    if (auto given = sizes.find(letter); given != sizes.end())
      size = given->second;
    return factors[letter] = std::isupper(letter) ? rule.addWhole(size, "stays whole")
                             : isResult           ? rule.addFactor(size)
                                                  : rule.addReduction(size, ReductionKind::Sum);
  }

  TensorFactors parseTensor(StringRef text, ArrayRef<int64_t> shape, ShardingRule &rule,
                            std::map<char, unsigned> &factors, bool isResult) {
    TensorFactors dims;
    for (bool isInside = false; char letter : text) {
      if (letter == '(' || letter == ')') {
        isInside = letter == '(';
        if (isInside)
          dims.emplace_back();
        continue;
      }
      if (!isInside)
        dims.emplace_back();
      dims.back().push_back(getFactor(letter, shape[dims.size() - 1], rule, factors, isResult));
    }
    return dims;
  }

  void parse(StringRef text, ArrayRef<int> nodes, ShardingRule &rule,
             std::map<char, unsigned> &factors, bool isResult) {
    SmallVector<StringRef> texts;
    text.split(texts, ' ');
    for (auto [tensor, node] : llvm::zip_equal(texts, nodes)) {
      TensorFactors dims = parseTensor(tensor, graph.nodes[node].shape, rule, factors, isResult);
      if (isResult)
        rule.results.push_back(std::move(dims));
      else
        rule.operands.push_back(std::move(dims));
    }
  }
};

TEST_F(PropagationTest, ElementwiseOpsPassSplitsBothWays) {
  int a = seed({over(8, {"dp"}), whole(6)}), b = add({8, 6}), c = add({8, 6}), d = add({8, 6});
  connect("ij ij -> ij", {a, b}, {c});
  connect("ij -> ij", {d}, {c});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(c), "[8 {dp}, 6]");
  EXPECT_EQ(splitsOf(b), "[8 {dp}, 6]") << "from the result to the other operand";
  EXPECT_EQ(splitsOf(d), "[8 {dp}, 6]") << "from the result of one op to the operand of another";
}

TEST_F(PropagationTest, TransposeAndBroadcast) {
  int x = seed({over(8, {"dp"}), over(6, {"tp"})}), turned = add({6, 8}), spread = add({4, 6, 8});
  connect("ij -> ji", {x}, {turned});
  connect("ji -> bji", {turned}, {spread});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(turned), "[6 {tp}, 8 {dp}]");
  EXPECT_EQ(splitsOf(spread), "[4, 6 {tp}, 8 {dp}]");
}

TEST_F(PropagationTest, ReshapeCutsAndJoinsFactors) {
  sizes = {{'h', 4}, {'d', 6}};
  int x = seed({over(5, {"dp"}), over(24, {"tp"})}), heads = add({5, 4, 6}), merged = add({5, 24});
  connect("n(hd) -> nhd", {x}, {heads});
  connect("nhd -> n(hd)", {heads}, {merged});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(heads), "[5 {dp}, 4 {tp}, 6]");
  EXPECT_EQ(splitsOf(merged), "[5 {dp}, 24 {tp}]");
}

TEST_F(PropagationTest, ASplitThatCrossesFactorsOfAReshapeStops) {
  sizes = {{'h', 4}, {'d', 6}};
  int x = seed({over(24, {"three"})}), heads = add({4, 6});
  connect("(hd) -> hd", {x}, {heads});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(heads), "[4, 6]")
      << "24 elements over 3 ranks give parts of 8, which do not consist of rows of 6";
}

TEST_F(PropagationTest, AMinorFactorStaysAFactorOfTheMergedDim) {
  sizes = {{'h', 4}, {'d', 6}};
  int heads = seed({whole(4), over(6, {"three"})}), merged = add({24});
  connect("hd -> (hd)", {heads}, {merged});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(merged), "[4 x 6 {three}]");
}

TEST_F(PropagationTest, MatmulOfAColumnSplitWeight) {
  int x = seed({over(8, {"dp"}), whole(6)}), w = seed({over(4, {"tp"}), whole(6)}), y = add({8, 4});
  connect("nk ok -> no", {x, w}, {y});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(y), "[8 {dp}, 4 {tp}]");
}

TEST_F(PropagationTest, MatmulPassesTheSummedDimToTheOtherOperandAlone) {
  int x = add({8, 6}), w = seed({whole(4), over(6, {"tp"})}), y = add({8, 4});
  connect("nk ok -> no", {x, w}, {y});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(x), "[8, 6 {tp}]");
  EXPECT_EQ(splitsOf(y), "[8, 4]");
}

TEST_F(PropagationTest, ReduceKeepsTheOtherDims) {
  int x = seed({over(8, {"dp"}), over(6, {"tp"})}), y = add({8});
  connect("ij -> i", {x}, {y});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(y), "[8 {dp}]");
}

TEST_F(PropagationTest, ConcatKeepsItsDimWhole) {
  int a = seed({over(8, {"dp"}), over(4, {"tp"})}), b = add({8, 6}), all = add({8, 10});
  connect("iA iB -> iC", {a, b}, {all});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(all), "[8 {dp}, 10]");
  EXPECT_EQ(splitsOf(b), "[8 {dp}, 6]");
}

TEST_F(PropagationTest, UnevenSplitsPass) {
  int x = seed({over(7, {"three"})}), y = add({7});
  connect("i -> i", {x}, {y});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(y), "[7 {three}]");
}

TEST_F(PropagationTest, OfTwoSplitsTheOneOfMoreBytesWins) {
  int small = seed({over(8, {"dp"}), whole(6)}),
      large = seed({whole(4), over(8, {"tp"}), whole(6)});
  int y = add({4, 8, 6});
  connect("ij bij -> bij", {small, large}, {y});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(y), "[4, 8 {tp}, 6]");
  EXPECT_EQ(splitsOf(small), "[8 {dp}, 6]") << "a seed stays";
}

TEST_F(PropagationTest, ALongerSplitExtendsAShorterOne) {
  int a = seed({over(8, {"dp"})}), b = seed({over(8, {"dp", "tp"})}), y = add({8});
  connect("i i -> i", {a, b}, {y});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(y), "[8 {dp, tp}]");
}

TEST_F(PropagationTest, AnAxisSplitsOneDimOfATensor) {
  int a = seed({over(8, {"tp"})}), b = seed({over(6, {"tp"})}), y = add({8, 6});
  connect("i j -> ij", {a, b}, {y});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(y), "[8 {tp}, 6]") << "the operand of 8 has more bytes";
}

TEST_F(PropagationTest, ConstantsTakeSplitsAndGiveNone) {
  int constant = add({8, 6}), x = seed({over(8, {"dp"}), whole(6)}), y = add({8, 6});
  graph.nodes[constant].constant = true;
  connect("ij ij -> ij", {constant, x}, {y});
  int split = seed({over(6, {"tp"})}), z = add({6});
  graph.nodes[split].constant = true;
  connect("j -> j", {split}, {z});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(constant), "[8 {dp}, 6]");
  EXPECT_EQ(splitsOf(z), "[6]");
}

TEST_F(PropagationTest, DataAxesDoNotReachParameters) {
  int x = seed({over(8, {"dp"}), over(6, {"tp"})}), weight = add({8, 6}), gathered = add({8, 6});
  graph.nodes[weight].takesDataAxes = false;
  connect("ij -> ij", {weight}, {x});
  connect("ij -> ij", {x}, {gathered}).modelAxesOnly = true;
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(weight), "[8, 6 {tp}]");
  EXPECT_EQ(splitsOf(gathered), "[8, 6 {tp}]");
}

TEST_F(PropagationTest, PriorityZeroReachesItsFixedPointFirst) {
  int far = seed({over(8, {"dp"})}), middle = add({8}), y = add({8});
  int near = seed({whole(99), over(8, {"tp"})});
  connect("bi -> i", {near}, {y}).priority = 1;
  connect("i -> i", {far}, {middle});
  connect("i -> i", {middle}, {y});
  propagateSplits(graph);
  EXPECT_EQ(splitsOf(y), "[8 {dp}]") << "although the other split has more bytes";
}

TEST_F(PropagationTest, EachChangeRecordsItsCause) {
  int x = seed({over(8, {"dp"})}), y = add({8}), z = add({8});
  connect("i -> i", {x}, {y});
  connect("i -> i", {y}, {z});
  propagateSplits(graph);
  EXPECT_EQ(graph.nodes[x].cause, -1);
  EXPECT_EQ(graph.nodes[y].cause, 0);
  EXPECT_EQ(graph.nodes[z].cause, 1);
}

TEST_F(PropagationTest, OneChangeReachesAllThatAWholePropagationReaches) {
  int x = seed({over(8, {"dp"}), whole(16)}), w = add({32, 16}), hidden = add({8, 32});
  int v = add({16, 32}), y = add({8, 16});
  connect("ij hj -> ih", {x, w}, {hidden});
  connect("ih jh -> ij", {hidden, v}, {y});
  propagateSplits(graph);
  graph.nodes[w].splits = {over(32, {"tp"}), whole(16)};
  graph.nodes[w].fixed = true;
  propagateSplitsFrom(graph, {unsigned(w)});
  EXPECT_EQ(splitsOf(hidden), print({over(8, {"dp"}), over(32, {"tp"})}));
  EXPECT_EQ(splitsOf(v), print({whole(16), over(32, {"tp"})}));
  std::vector<TensorSplits> before;
  for (const ShardingNode &node : graph.nodes)
    before.push_back(node.splits);
  propagateSplits(graph);
  for (auto [node, splits] : llvm::zip(graph.nodes, before))
    EXPECT_EQ(node.splits, splits);
}

TEST_F(PropagationTest, LaterSeedsTakeAxesThatAreLeft) {
  int x = seed({over(8, {"dp"}), whole(6)}), y = add({8, 6}), z = add({8, 6});
  graph.nodes[y].later = {whole(8), over(6, {"tp"})};
  connect("ij -> ij", {x}, {y});
  connect("ij -> ij", {y}, {z});
  propagateSplits(graph);
  propagateLaterSplits(graph);
  EXPECT_EQ(splitsOf(y), "[8 {dp}, 6 {tp}]");
  EXPECT_EQ(splitsOf(z), "[8 {dp}, 6 {tp}]");
  ASSERT_EQ(graph.nodes[z].laterAxes.size(), 1u);
  EXPECT_EQ(graph.nodes[z].laterAxes.front(), "tp");
}

TEST_F(PropagationTest, LaterSeedsYieldToAnAxisThatIsUsed) {
  int x = seed({over(8, {"tp"}), whole(6)}), y = add({8, 6});
  graph.nodes[y].later = {whole(8), over(6, {"tp"})};
  connect("ij -> ij", {x}, {y});
  propagateSplits(graph);
  propagateLaterSplits(graph);
  EXPECT_EQ(splitsOf(y), "[8 {tp}, 6]");
  EXPECT_TRUE(graph.nodes[y].laterAxes.empty());
}

/// Returns the axes over which a tensor is a partial sum.
std::vector<StringRef> getPartialAxes(const ShardingGraph &graph, int node) {
  std::vector<StringRef> axes;
  for (PartialAttr partial : graph.nodes[node].partial)
    axes.push_back(partial.getAxis().getValue());
  return axes;
}

TEST_F(PropagationTest, APartialSumIsReducedAfterALinearOpWithASmallerResult) {
  int x = seed({whole(8), over(6, {"tp"})}), y = add({8}), w = seed({whole(8), whole(4)}),
      z = add({4});
  connect("nk -> n", {x}, {y}, {0});
  connect("n no -> o", {y, w}, {z}, {0, 1});
  propagateSplits(graph);
  choosePartials(graph);
  EXPECT_EQ(getPartialAxes(graph, y), std::vector<StringRef>{"tp"});
  EXPECT_TRUE(getPartialAxes(graph, z).empty()) << "a later reduction is not cheaper";
}

TEST_F(PropagationTest, APartialSumIsReducedBeforeAnOpThatIsNotLinear) {
  int x = seed({whole(8), over(6, {"tp"})}), y = add({8}), z = add({8});
  connect("nk -> n", {x}, {y}, {0});
  connect("n -> n", {y}, {z});
  propagateSplits(graph);
  choosePartials(graph);
  EXPECT_TRUE(getPartialAxes(graph, y).empty());
}

TEST_F(PropagationTest, EqualRulesShareTheirResults) {
  int x = seed({whole(8), over(6, {"tp"})}), y = seed({whole(8), over(6, {"tp"})}),
      z = seed({whole(8), whole(6)}), a = add({8}), b = add({8}), c = add({8}), d = add({8});
  connect("nk -> n", {x}, {a}, {0});
  connect("nk -> n", {y}, {b}, {0});
  connect("nk -> n", {z}, {c}, {0});
  connect("nk -> n", {y}, {d}); // not linear
  EdgeShardings known(graph);
  std::vector<ShardingAttr> nodes = known.getNodes();
  EXPECT_EQ(&known.get(0, nodes), &known.get(1, nodes));
  EXPECT_NE(&known.get(0, nodes), &known.get(2, nodes)) << "another sharding";
  EXPECT_NE(&known.get(0, nodes), &known.get(3, nodes)) << "another rule";
}

TEST_F(PropagationTest, OnATieTheProducerReduces) {
  int x = seed({whole(8), over(6, {"tp"})}), y = add({8}), z = add({8});
  connect("nk -> n", {x}, {y}, {0});
  connect("n -> n", {y}, {z}, {0});
  propagateSplits(graph);
  choosePartials(graph);
  EXPECT_TRUE(getPartialAxes(graph, y).empty());
}

} // namespace
