// Tests placements: the mapping from local to global indices, owners of elements, and groups of
// ranks.
#include "runtime/core/Placement.h"
#include <gtest/gtest.h>
#include <set>

using namespace psrt;

static Mesh mesh22() { return {{{"dp", AxisKind::Data, 2}, {"tp", AxisKind::Tensor, 2}}}; }

static Placement make(const Mesh &mesh, std::vector<std::vector<Placement::Factor>> factors) {
  Placement result;
  for (auto &dim : factors) {
    int64_t size = 1;
    for (auto &factor : dim)
      size *= factor.size;
    result.shape.push_back(size);
  }
  result.factors = std::move(factors);
  result.local = result.computeLocal(mesh);
  return result;
}

TEST(Placement, LastAxisVariesFastest) {
  Mesh mesh = mesh22();
  EXPECT_EQ(mesh.coordinates(1), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(mesh.coordinates(2), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(mesh.group(1, {0}), (std::vector<int>{1, 3}));
  EXPECT_EQ(mesh.group(2, {1}), (std::vector<int>{2, 3}));
  EXPECT_EQ(mesh.group(0, {1, 0}), (std::vector<int>{0, 2, 1, 3}));
}

TEST(Placement, UnevenShardHasPaddingAtItsEnd) {
  Mesh mesh = mesh22();
  Placement p = make(mesh, {{{5, {1}}}});
  EXPECT_EQ(p.local, (std::vector<int64_t>{3}));
  EXPECT_EQ(p.globalIndices(mesh, {0, 0}, 0), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(p.globalIndices(mesh, {0, 1}, 0), (std::vector<int64_t>{3, 4, -1}));
}

TEST(Placement, ShardsMayHaveMorePaddingThanTheyNeed) {
  Mesh mesh = mesh22();
  Placement p = make(mesh, {{{5, {1}, 4}}, {{3, {}, 4}}});
  EXPECT_EQ(p.local, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(p.globalIndices(mesh, {0, 0}, 0), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(p.globalIndices(mesh, {0, 1}, 0), (std::vector<int64_t>{4, -1, -1, -1}));
  EXPECT_EQ(p.globalIndices(mesh, {0, 1}, 1), (std::vector<int64_t>{0, 1, 2, -1}));
  std::vector<std::vector<int64_t>> runs;
  forEachRun(p, mesh, {0, 1}, [&](int64_t local, int64_t global, int64_t count) {
    runs.push_back({local, global, count});
  });
  EXPECT_EQ(runs, (std::vector<std::vector<int64_t>>{{0, 12, 3}}));
}

TEST(Placement, MinorFactorIsSplitWithinEachMajorOne) {
  Mesh mesh = mesh22();
  // A dim of 12 = 3 x 4 elements. Its minor factor, of size 4, is split over tp.
  Placement p = make(mesh, {{{3, {}}, {4, {1}}}});
  EXPECT_EQ(p.globalIndices(mesh, {0, 1}, 0), (std::vector<int64_t>{2, 3, 6, 7, 10, 11}));
}

TEST(Placement, EveryElementIsHeldExactlyOnceByTheOwners) {
  Mesh mesh = mesh22();
  for (const Placement &p :
       {make(mesh, {{{5, {0}}}, {{3, {}}, {7, {1}}}, {{2, {}}}}),
        make(mesh, {{{9, {0, 1}}}, {{2, {}}}}), make(mesh, {{{4, {}}}}), make(mesh, {})}) {
    std::multiset<int64_t> seen;
    for (int rank = 0; rank < 4; ++rank)
      if (p.isOwner(mesh, mesh.coordinates(rank)))
        forEachRun(p, mesh, mesh.coordinates(rank), [&](int64_t, int64_t global, int64_t count) {
          for (int64_t i = 0; i < count; ++i)
            seen.insert(global + i);
        });
    ASSERT_EQ(int64_t(seen.size()), p.count());
    for (int64_t i = 0; i < p.count(); ++i)
      EXPECT_EQ(seen.count(i), 1u);
  }
}

TEST(Placement, RunsAgreeWithTheIndexFunction) {
  Mesh mesh = mesh22();
  Placement p = make(mesh, {{{4, {0}}}, {{3, {}}, {5, {1}}}});
  std::vector<int64_t> c = {1, 1}, rows = p.globalIndices(mesh, c, 0),
                       columns = p.globalIndices(mesh, c, 1);
  std::vector<int64_t> found(p.localCount(), -1);
  forEachRun(p, mesh, c, [&](int64_t local, int64_t global, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      found[local + i] = global + i;
  });
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t j = 0; j < columns.size(); ++j)
      EXPECT_EQ(found[r * columns.size() + j], columns[j] < 0 ? -1 : rows[r] * 15 + columns[j]);
}
