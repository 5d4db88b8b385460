// Tests how index ranges are split over mesh axes: local sizes, canonical forms, cuts and joins.
#include "MeshTest.h"

using namespace mlir;
using namespace parashard::sharding;

namespace {

class SplitTest : public testing::Test {
protected:
  TestMesh mesh{R"("dp" = 2 : data, "tp" = 3 : tensor, "one" = 1 : data)"};

  /// Returns the elements of every rank.
  std::vector<std::vector<int64_t>> getAllElements(const Split &split) {
    std::vector<std::vector<int64_t>> all;
    all.reserve(mesh.getRankCount());
    for (int64_t rank = 0; rank < mesh.getRankCount(); ++rank)
      all.push_back(getElements(split, mesh, rank));
    return all;
  }
  /// Returns the parts and the axes that were dropped, such as `[4, 3] without tp`.
  std::string cutAndPrint(const Split &split, ArrayRef<int64_t> sizes) const {
    SmallVector<StringAttr> dropped;
    std::string text = print(cut(split, sizes, mesh.shape, &dropped));
    for (StringAttr axis : dropped)
      text += " without " + axis.str();
    return text;
  }
};

TEST_F(SplitTest, UnevenShardsArePadded) {
  EXPECT_EQ(mesh.shape.getShardSize(7, mesh.axes({"dp"})), 4);
  EXPECT_FALSE(mesh.shape.isEven(7, mesh.axes({"dp"})));
  EXPECT_TRUE(mesh.shape.isEven(6, mesh.axes({"dp", "tp"})));
  Split split = makeSplit(7, mesh.axes({"tp"}));
  EXPECT_EQ(getLocalSize(split, mesh.shape), 3);
  EXPECT_EQ(getElements(split, mesh, 2), (std::vector<int64_t>{6, -1, -1}));
}

TEST_F(SplitTest, MoreShardsThanElementsLeaveEmptyShards) {
  Split split = makeSplit(2, mesh.axes({"tp"}));
  EXPECT_EQ(getElements(split, mesh, 0), (std::vector<int64_t>{0}));
  EXPECT_EQ(getElements(split, mesh, 2), (std::vector<int64_t>{-1}));
}

TEST_F(SplitTest, AnAxisOfKindMultipleRoundsShardsUp) {
  TestMesh padded(R"("tp" = 2 : tensor, "pad.4" = 4 : multiple)");
  EXPECT_EQ(padded.shape.getShardSize(10, padded.axes({"tp"})), 5);
  EXPECT_EQ(padded.shape.getShardSize(10, padded.axes({"tp", "pad.4"})), 8);
  EXPECT_EQ(padded.shape.getShards(padded.axes({"tp", "pad.4"})), 2);
}

TEST_F(SplitTest, SimplifyMergesFactorsThatAreSplitEvenlyTogether) {
  EXPECT_EQ(print(simplify({mesh.factor(6, {"tp"}), mesh.factor(4)}, mesh.shape)), "24 {tp}");
  EXPECT_EQ(print(simplify({mesh.factor(2, {"dp"}), mesh.factor(6, {"tp"})}, mesh.shape)),
            "12 {dp, tp}");
  EXPECT_EQ(print(simplify({mesh.factor(6, {"one"}), mesh.factor(1)}, mesh.shape)), "6");
  // Twins: 7 is not even over tp, and the minor factor is split within each major element.
  EXPECT_EQ(print(simplify({mesh.factor(7, {"tp"}), mesh.factor(4)}, mesh.shape)), "7 {tp} x 4");
  EXPECT_EQ(print(simplify({mesh.factor(4), mesh.factor(6, {"tp"})}, mesh.shape)), "4 x 6 {tp}");
}

TEST_F(SplitTest, SimplifyKeepsTheElementsOfEveryRank) {
  for (int64_t size : {1, 2, 4, 5, 6, 7, 8, 12})
    for (const Split &split : getAllSplits(mesh, size, {"dp", "tp"})) {
      Split simple = simplify(split, mesh.shape);
      EXPECT_EQ(getAllElements(split), getAllElements(simple))
          << print(split) << " became " << print(simple);
      EXPECT_EQ(simple, simplify(simple, mesh.shape)) << print(split);
    }
}

/// Returns true if a rank has padding.
bool hasPadding(const std::vector<std::vector<int64_t>> &elements) {
  return llvm::any_of(elements, [](const auto &rank) { return llvm::is_contained(rank, -1); });
}

TEST_F(SplitTest, EqualSplitsWithoutPaddingHaveOneForm) {
  int pairs = 0;
  for (int64_t size : {4, 6, 12, 24}) {
    std::vector<Split> splits = getAllSplits(mesh, size, {"dp", "tp"});
    for (const Split &a : splits) {
      auto elements = getAllElements(a);
      for (const Split &b : splits)
        if (!hasPadding(elements) && elements == getAllElements(b)) {
          ++pairs;
          EXPECT_EQ(print(simplify(a, mesh.shape)), print(simplify(b, mesh.shape)))
              << print(a) << " and " << print(b);
        }
    }
  }
  EXPECT_GT(pairs, 100);
}

TEST_F(SplitTest, CutGivesAxesToTheFactorsThatTheySplit) {
  EXPECT_EQ(cutAndPrint(makeSplit(64, mesh.axes({"dp"})), {4, 16}), "[4 {dp}, 16]");
  EXPECT_EQ(cutAndPrint(makeSplit(24, mesh.axes({"dp", "tp"})), {2, 12}), "[2 {dp}, 12 {tp}]");
  EXPECT_EQ(cutAndPrint({mesh.factor(4), mesh.factor(6, {"tp"})}, {4, 6}), "[4, 6 {tp}]");
  EXPECT_EQ(cutAndPrint({mesh.factor(4), mesh.factor(6, {"tp"})}, {2, 12}), "[2, 2 x 6 {tp}]");
}

TEST_F(SplitTest, CutReportsAxesThatDoNotFallOnItsBoundaries) {
  EXPECT_EQ(cutAndPrint(makeSplit(12, mesh.axes({"tp"})), {4, 3}), "[4, 3] without tp");
  EXPECT_EQ(cutAndPrint({mesh.factor(4), mesh.factor(6, {"tp"})}, {3, 8}), "[3, 8] without tp");
}

/// Returns all ways to write `size` as the product of two or three sizes.
std::vector<SmallVector<int64_t>> getAllSizes(int64_t size) {
  std::vector<SmallVector<int64_t>> all;
  for (int64_t a = 1; a <= size; ++a)
    for (int64_t b = 1; a * b <= size; ++b)
      if (size % (a * b) == 0)
        all.push_back({a, b, size / (a * b)});
  return all;
}

TEST_F(SplitTest, CutPartsJoinToTheSameSplit) {
  int exact = 0;
  for (int64_t size : {4, 6, 7, 8, 12})
    for (const Split &split : getAllSplits(mesh, size, {"dp", "tp"}))
      for (ArrayRef<int64_t> sizes : getAllSizes(size)) {
        SmallVector<StringAttr> dropped;
        SmallVector<Split> parts = cut(split, sizes, mesh.shape, &dropped);
        for (auto [part, wanted] : llvm::zip_equal(parts, sizes)) {
          int64_t product = 1;
          for (const SubFactor &factor : part)
            product *= factor.size;
          EXPECT_EQ(product, wanted) << print(split) << " gave " << print(parts);
        }
        if (!dropped.empty())
          continue;
        ++exact;
        EXPECT_EQ(getAllElements(join(parts, mesh.shape)), getAllElements(split))
            << print(split) << " gave " << print(parts);
      }
  EXPECT_GT(exact, 500);
}

TEST_F(SplitTest, WithoutRemovesAxes) {
  Split split = {mesh.factor(4, {"dp"}), mesh.factor(6, {"tp"})};
  EXPECT_EQ(print(without(split, [](StringAttr axis) { return axis == "dp"; })), "4 x 6 {tp}");
  EXPECT_TRUE(isWhole(without(split, [](StringAttr) { return true; })));
  EXPECT_FALSE(isWhole(split));
}

TEST_F(SplitTest, AttributesKeepSplits) {
  for (int64_t size : {1, 6, 7, 12})
    for (const Split &split : getAllSplits(mesh, size, {"dp", "tp"})) {
      Split simple = simplify(split, mesh.shape);
      EXPECT_EQ(getSplit(getDimAttr(simple, mesh.shape), size), simple) << print(split);
    }
}

} // namespace
