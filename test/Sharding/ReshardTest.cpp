// Tests the plans of reshardings by executing them on plain arrays: between any two shardings,
// every rank ends with the elements that the target sharding gives it.
#include "lib/Sharding/Reshard.h"
#include "test/Sharding/MeshTest.h"
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace parashard::ps;
using namespace parashard::sharding;
using Kind = ReshardStep::Kind;

namespace {

constexpr double kPadding = std::numeric_limits<double>::quiet_NaN();

/// The local tensor of one rank, row-major.
struct Array {
  SmallVector<int64_t> shape;
  std::vector<double> values;

  explicit Array(ArrayRef<int64_t> shape)
      : shape(shape),
        values(std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<int64_t>()),
               kPadding) {}
};

/// Calls `visit` with every index of a tensor of this shape, in row-major order.
void forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  if (llvm::is_contained(shape, 0))
    return;
  while (true) {
    visit(index);
    int64_t dim = int64_t(shape.size()) - 1;
    while (dim >= 0 && ++index[dim] == shape[dim])
      index[dim--] = 0;
    if (dim < 0)
      return;
  }
}

int64_t linearize(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t linear = 0;
  for (auto [i, size] : llvm::zip_equal(index, shape))
    linear = linear * size + i;
  return linear;
}

/// Copies `from` to `to`, where the element at `index` of `to` is at `index + offset` of `from`
/// along `dim`. Elements outside `from` become padding, and those outside `to` are skipped.
void copyShifted(const Array &from, Array &to, unsigned dim, int64_t offset) {
  forEachIndex(to.shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> source(index);
    source[dim] += offset;
    if (source[dim] >= 0 && source[dim] < from.shape[dim])
      to.values[linearize(index, to.shape)] = from.values[linearize(source, from.shape)];
  });
}

/// The local tensors of all ranks. Executes the steps of a reshard plan on them.
class Ranks {
public:
  Ranks(const TestMesh &mesh, std::vector<Array> arrays) : mesh(mesh), arrays(std::move(arrays)) {}

  void run(const ReshardStep &step) {
    std::vector<Array> results;
    results.reserve(arrays.size());
    for (int64_t rank = 0; rank < int64_t(arrays.size()); ++rank)
      results.push_back(run(step, rank));
    arrays = std::move(results);
  }
  const std::vector<Array> &get() const { return arrays; }

private:
  /// Returns the ranks that differ from `rank` only along `axes`, in the order of their shards.
  std::vector<int64_t> getGroup(int64_t rank, ArrayRef<StringAttr> axes) const {
    std::vector<int64_t> group(mesh.shape.getShards(axes));
    for (int64_t other = 0; other < int64_t(arrays.size()); ++other) {
      bool isMember = llvm::all_of(mesh.shape.getAxes(), [&](AxisAttr axis) {
        return llvm::is_contained(axes, axis.getName()) ||
               mesh.getCoordinate(rank, axis.getName()) ==
                   mesh.getCoordinate(other, axis.getName());
      });
      if (isMember)
        group[mesh.getShardIndex(other, axes)] = other;
    }
    return group;
  }

  /// Combines the arrays of a group, element by element.
  Array reduce(const std::vector<int64_t> &group, ReductionKind kind) const {
    Array result = arrays[group.front()];
    for (int64_t rank : ArrayRef(group).drop_front())
      for (auto [a, b] : llvm::zip_equal(result.values, arrays[rank].values))
        a = kind == ReductionKind::Sum   ? a + b
            : kind == ReductionKind::Max ? std::max(a, b)
                                         : std::min(a, b);
    return result;
  }

  Array run(const ReshardStep &step, int64_t rank) const {
    const Array &own = arrays[rank];
    Array result(step.shape);
    int64_t shard = mesh.getShardIndex(rank, step.axes);
    std::vector<int64_t> group = getGroup(rank, step.axes);
    switch (step.kind) {
    case Kind::Reshape:
      EXPECT_EQ(own.values.size(), result.values.size());
      result.values = own.values;
      break;
    case Kind::AllReduce:
      return reduce(group, step.reduction);
    case Kind::ReduceScatter:
      EXPECT_EQ(own.shape[step.dim], int64_t(group.size()) * step.shape[step.dim]);
      copyShifted(reduce(group, step.reduction), result, step.dim, shard * step.shape[step.dim]);
      break;
    case Kind::AllGather:
      for (auto [i, other] : llvm::enumerate(group))
        copyShifted(arrays[other], result, step.dim, -int64_t(i) * own.shape[step.dim]);
      break;
    case Kind::AllToAll:
      allToAll(step, group, shard, result);
      break;
    case Kind::ShardSlice:
      copyShifted(own, result, step.dim, shard * step.shape[step.dim]);
      break;
    case Kind::Slice:
    case Kind::Pad:
      copyShifted(own, result, step.dim, 0);
      break;
    case Kind::KeepFirst:
      result = own;
      if (shard != 0)
        std::fill(result.values.begin(), result.values.end(), 0);
    }
    return result;
  }

  /// Takes this rank's part of `dim` from each rank of the group, and concatenates along `other`.
  void allToAll(const ReshardStep &step, const std::vector<int64_t> &group, int64_t shard,
                Array &result) const {
    for (auto [i, other] : llvm::enumerate(group)) {
      SmallVector<int64_t> shape = arrays[other].shape;
      EXPECT_EQ(shape[step.dim], int64_t(group.size()) * step.shape[step.dim]);
      shape[step.dim] = step.shape[step.dim];
      Array part(shape);
      copyShifted(arrays[other], part, step.dim, shard * step.shape[step.dim]);
      copyShifted(part, result, step.other, -int64_t(i) * shape[step.other]);
    }
  }

  const TestMesh &mesh;
  std::vector<Array> arrays;
};

/// A sharding under test: the split of each dim, and the axes over which the value is partial.
struct Layout {
  TensorSplits splits;
  SmallVector<PartialAttr> partial;
  ShardingAttr attr;
};

class ReshardTest {
public:
  ReshardTest(const std::string &axes, ArrayRef<int64_t> shape) : mesh(axes), shape(shape) {
    for (AxisAttr axis : mesh.shape.getAxes())
      names.push_back(axis.getName());
  }

  /// Adds every layout that uses each axis at most once and whose dims have splits from `getDims`.
  /// Over the other axes, the value may be a partial sum or maximum.
  void addLayouts(llvm::function_ref<std::vector<Split>(int64_t)> getDims) {
    std::vector<TensorSplits> all = {{}};
    for (int64_t size : shape) {
      std::vector<TensorSplits> longer;
      for (const TensorSplits &splits : all)
        for (const Split &split : getDims(size)) {
          longer.push_back(splits);
          longer.back().push_back(split);
        }
      all = std::move(longer);
    }
    for (const TensorSplits &splits : all)
      addPartials(splits);
  }

  /// Executes the plan between every two layouts. Returns the number of steps of each kind.
  std::map<Kind, int> checkAll() {
    std::map<Kind, int> counts;
    for (const Layout &from : layouts)
      for (const Layout &to : layouts)
        if (!check(from, to, counts))
          return counts;
    return counts;
  }

  TestMesh mesh;
  std::vector<Layout> layouts;

private:
  void addPartials(const TensorSplits &splits) {
    SmallVector<StringRef> used;
    for (const Split &split : splits)
      for (StringAttr axis : getAxes(split))
        used.push_back(axis);
    if (std::set<StringRef>(used.begin(), used.end()).size() != used.size())
      return;
    SmallVector<StringRef> rest;
    for (StringRef name : names)
      if (!llvm::is_contained(used, name))
        rest.push_back(name);
    for (ReductionKind kind : {ReductionKind::Sum, ReductionKind::Max})
      for (unsigned mask = kind == ReductionKind::Sum ? 0 : 1; mask < 1u << rest.size(); ++mask) {
        Layout layout{splits, {}, {}};
        for (auto [i, name] : llvm::enumerate(rest))
          if (mask >> i & 1)
            layout.partial.push_back(PartialAttr::get(&mesh.context, mesh.axis(name), kind));
        layout.attr = getShardingAttr(splits, layout.partial, mesh.shape);
        layouts.push_back(std::move(layout));
      }
  }

  /// Returns the global linear index of each local element of a rank; -1 for padding.
  Array getIndices(const Layout &layout, int64_t rank) const {
    SmallVector<int64_t> local;
    std::vector<std::vector<int64_t>> elements;
    for (const Split &split : getSplits(layout.attr, shape, mesh.shape)) {
      elements.push_back(getElements(split, mesh, rank));
      local.push_back(elements.back().size());
    }
    Array result(local);
    forEachIndex(local, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> global;
      for (auto [dim, i] : llvm::enumerate(index))
        global.push_back(elements[dim][i]);
      result.values[linearize(index, local)] =
          llvm::is_contained(global, -1) ? -1 : double(linearize(global, shape));
    });
    return result;
  }

  /// Returns the part of element `index` (of value `index + 1`) that a rank holds. The parts of a
  /// sum are unequal; the maximum is on a rank that depends on the element.
  double getPart(const Layout &layout, int64_t rank, int64_t index) const {
    double value = double(index + 1);
    if (layout.partial.empty())
      return value;
    SmallVector<StringAttr> axes;
    for (PartialAttr p : layout.partial)
      axes.push_back(p.getAxis());
    int64_t count = mesh.shape.getShards(axes), own = mesh.getShardIndex(rank, axes);
    if (layout.partial.front().getKind() == ReductionKind::Max)
      return own == index % count ? value : value - 1 - double(own);
    double others = double(count * (count - 1)) / 2;
    return own == 0 ? value - others : double(own);
  }

  std::vector<Array> distribute(const Layout &layout) const {
    std::vector<Array> arrays;
    for (int64_t rank = 0; rank < mesh.getRankCount(); ++rank) {
      arrays.push_back(getIndices(layout, rank));
      for (double &value : arrays.back().values)
        value = value < 0 ? kPadding : getPart(layout, rank, int64_t(value));
    }
    return arrays;
  }

  /// Reduces the axes over which `layout` is partial. Every rank then holds complete elements.
  void complete(Ranks &ranks, const Layout &layout) const {
    for (PartialAttr p : layout.partial) {
      ReshardStep step{Kind::AllReduce, ranks.get().front().shape, {p.getAxis()}};
      step.reduction = p.getKind();
      ranks.run(step);
    }
  }

  bool check(const Layout &from, const Layout &to, std::map<Kind, int> &counts) const {
    SmallVector<ReshardStep> steps = planReshard(shape, from.attr, to.attr, mesh.shape);
    EXPECT_TRUE(from.attr != to.attr || steps.empty()) << describe(from, to);
    Ranks ranks(mesh, distribute(from));
    for (const ReshardStep &step : steps) {
      ++counts[step.kind];
      ranks.run(step);
    }
    complete(ranks, to);
    for (int64_t rank = 0; rank < mesh.getRankCount(); ++rank) {
      Array expected = getIndices(to, rank);
      const Array &found = ranks.get()[rank];
      bool same = found.shape == expected.shape;
      for (size_t i = 0; same && i < expected.values.size(); ++i)
        same = expected.values[i] < 0 || found.values[i] == expected.values[i] + 1;
      EXPECT_TRUE(same) << describe(from, to) << " on rank " << rank;
      if (!same)
        return false;
    }
    return true;
  }

  static std::string describe(const Layout &from, const Layout &to) {
    std::string text;
    llvm::raw_string_ostream(text) << from.attr << " to " << to.attr;
    return text;
  }

  SmallVector<int64_t> shape;
  SmallVector<StringRef> names;
};

/// Returns the splits of a dim into one factor.
std::function<std::vector<Split>(int64_t)> getOneFactor(TestMesh &mesh, ArrayRef<StringRef> axes) {
  return [&mesh, axes](int64_t size) {
    std::vector<Split> splits;
    for (const Split &split : getAllSplits(mesh, size, axes))
      if (split.size() == 1)
        splits.push_back(split);
    return splits;
  };
}

constexpr StringRef kAxes[] = {"dp", "tp"};

void checkDims(const std::string &axes, ArrayRef<int64_t> shape) {
  ReshardTest test(axes, shape);
  test.addLayouts(getOneFactor(test.mesh, kAxes));
  EXPECT_GT(test.layouts.size(), 10u);
  std::map<Kind, int> counts = test.checkAll();
  for (Kind kind :
       {Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::ShardSlice, Kind::KeepFirst})
    EXPECT_GT(counts[kind], 0) << "no step of kind " << int(kind);
  EXPECT_EQ(counts[Kind::AllToAll] > 0, shape.size() > 1);
}

TEST(Reshard, BetweenAllSplitsOfEvenDims) {
  checkDims(R"("dp" = 2 : data, "tp" = 2 : tensor)", {4, 8});
}

TEST(Reshard, BetweenAllSplitsOfDimsWithPadding) {
  checkDims(R"("dp" = 2 : data, "tp" = 3 : tensor)", {5, 4});
}

TEST(Reshard, BetweenAllSplitsOfThreeDims) {
  checkDims(R"("dp" = 2 : data, "tp" = 2 : tensor)", {2, 3, 4});
}

/// A dim may be split within its factors, such as the heads of a fused query, key and value.
TEST(Reshard, BetweenAllFactorsOfOneDim) {
  for (int64_t size : {6, 8, 12}) {
    ReshardTest test(R"("dp" = 2 : data, "tp" = 3 : tensor)", {size});
    test.addLayouts([&](int64_t n) { return getAllSplits(test.mesh, n, kAxes); });
    std::map<Kind, int> counts = test.checkAll();
    EXPECT_GT(counts[Kind::Reshape], 0);
  }
}

TEST(Reshard, BetweenFactorsOfTwoDims) {
  ReshardTest test(R"("dp" = 2 : data, "tp" = 2 : tensor)", {4, 6});
  test.addLayouts([&](int64_t n) { return getAllSplits(test.mesh, n, kAxes); });
  std::map<Kind, int> counts = test.checkAll();
  EXPECT_GT(counts[Kind::AllToAll], 0);
}

class ReshardPlan : public testing::Test {
protected:
  TestMesh mesh{R"("dp" = 2 : data, "tp" = 2 : tensor)"};

  ShardingAttr shard(const TensorSplits &splits, ArrayRef<PartialAttr> partial = {}) const {
    return getShardingAttr(splits, partial, mesh.shape);
  }
  PartialAttr sumOver(StringRef axis) {
    return PartialAttr::get(&mesh.context, mesh.axis(axis), ReductionKind::Sum);
  }
  std::vector<Kind> plan(ArrayRef<int64_t> shape, ShardingAttr from, ShardingAttr to) const {
    std::vector<Kind> kinds;
    for (const ReshardStep &step : planReshard(shape, from, to, mesh.shape))
      kinds.push_back(step.kind);
    return kinds;
  }
};

TEST_F(ReshardPlan, AnotherDimTakesOneAllToAll) {
  ShardingAttr rows = shard({{mesh.factor(4, {"tp"})}, {mesh.factor(8)}});
  ShardingAttr columns = shard({{mesh.factor(4)}, {mesh.factor(8, {"tp"})}});
  EXPECT_EQ(plan({4, 8}, rows, columns), std::vector<Kind>{Kind::AllToAll});
}

TEST_F(ReshardPlan, APartialSumThatIsSplitTakesOneReduceScatter) {
  ShardingAttr partial = shard({{mesh.factor(4)}, {mesh.factor(8)}}, {sumOver("tp")});
  ShardingAttr rows = shard({{mesh.factor(4, {"tp"})}, {mesh.factor(8)}});
  EXPECT_EQ(plan({4, 8}, partial, rows), std::vector<Kind>{Kind::ReduceScatter});
  EXPECT_EQ(plan({4, 8}, partial, ShardingAttr()), std::vector<Kind>{Kind::AllReduce});
}

TEST_F(ReshardPlan, AFinerSplitNeedsNoCommunication) {
  ShardingAttr rows = shard({{mesh.factor(4, {"dp"})}, {mesh.factor(8)}});
  ShardingAttr finer = shard({{mesh.factor(4, {"dp", "tp"})}, {mesh.factor(8)}});
  EXPECT_EQ(plan({4, 8}, rows, finer), std::vector<Kind>{Kind::ShardSlice});
  EXPECT_EQ(plan({4, 8}, finer, rows), std::vector<Kind>{Kind::AllGather});
  EXPECT_EQ(plan({4, 8}, rows, rows), std::vector<Kind>{});
}

} // namespace
