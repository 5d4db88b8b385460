// Plans reshardings. Splits every dim into factors that both shardings have, and plans the steps on
// these factors.
#include "lib/Sharding/Reshard.h"
#include "llvm/Support/MathExtras.h"
#include <set>

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

namespace {
using Axes = SmallVector<StringAttr, 2>;
using Kind = ReshardStep::Kind;

/// One factor of a dim. Each factor is one dim of the expanded local tensor.
struct Factor {
  int64_t size;
  Axes axes;   ///< axes that currently split the factor
  Axes target; ///< axes that split the factor after the last step
};

/// Returns the products of the trailing factor sizes. Example: factors [2, 3, 4] give {4, 12, 24}.
std::set<int64_t> getBorders(const Split &split) {
  std::set<int64_t> borders;
  int64_t product = 1;
  for (const SubFactor &factor : llvm::reverse(split)) {
    product *= factor.size;
    borders.insert(product);
  }
  return borders;
}

/// Returns the sizes of the common factors of two splits, major to minor. Returns no sizes if a
/// border does not divide the next larger border. Example: [2, 12] and [6, 4] give [2, 3, 4].
SmallVector<int64_t> getCommonSizes(const Split &a, const Split &b) {
  std::set<int64_t> borders = getBorders(a);
  std::set<int64_t> ofB = getBorders(b);
  borders.insert(ofB.begin(), ofB.end());
  SmallVector<int64_t> sizes;
  int64_t before = 1;
  for (int64_t border : borders) {
    if (border % before != 0)
      return {};
    if (border != before || borders.size() == 1)
      sizes.push_back(border / before);
    before = border;
    if (border == 0)
      break;
  }
  return SmallVector<int64_t>(llvm::reverse(sizes));
}

/// Cuts a split into factors of the given sizes, and returns the axes of each. Returns nullopt if
/// the axes do not fit these factors.
std::optional<SmallVector<Axes>> cutInto(const Split &split, ArrayRef<int64_t> sizes,
                                         const MeshShape &mesh) {
  SmallVector<StringAttr> dropped;
  SmallVector<Axes> parts;
  for (const Split &part : cut(split, sizes, mesh, &dropped)) {
    if (part.size() != 1)
      return std::nullopt;
    parts.push_back(part.front().axes);
  }
  if (!dropped.empty())
    return std::nullopt;
  return parts;
}

class Planner {
public:
  Planner(ArrayRef<int64_t> shape, ShardingAttr from, ShardingAttr to, const MeshShape &mesh)
      : mesh(mesh), fromSplits(getSplits(from, shape, mesh)), toSplits(getSplits(to, shape, mesh)) {
    ArrayRef<PartialAttr> now, wanted;
    if (from)
      now = from.getPartial();
    if (to)
      wanted = to.getPartial();
    for (PartialAttr p : now)
      if (mesh.getSize(p.getAxis()) > 1)
        (llvm::is_contained(wanted, p) ? kept : partial).push_back(p);
    for (PartialAttr p : wanted)
      if (mesh.getSize(p.getAxis()) > 1 && !llvm::is_contained(now, p))
        added.push_back(p);
  }

  SmallVector<ReshardStep> run() {
    if (fromSplits == toSplits && partial.empty() && added.empty())
      return {};
    for (const Split &split : fromSplits)
      shape.push_back(getLocalSize(split, mesh));
    readDims();
    reshapeTo(getFactorShape());
    sliceFreeAxes();
    reduceScatter();
    allReduce();
    allToAll();
    allGather();
    refactorUnmatchedDims();
    slice();
    keepFirst();
    SmallVector<int64_t> local;
    for (const Split &split : toSplits)
      local.push_back(getLocalSize(split, mesh));
    reshapeTo(local);
    return std::move(steps);
  }

private:
  //===--- the expanded tensor ---===//

  /// Splits every dim into factors. A dim is `unmatched` if the factors of source and target do not
  /// nest. Such a dim is gathered over all its axes, and then split into the factors of the target.
  void readDims() {
    for (auto [dim, pair] : llvm::enumerate(llvm::zip(fromSplits, toSplits))) {
      const auto &[a, b] = pair;
      SmallVector<int64_t> sizes = getCommonSizes(a, b);
      auto now = sizes.empty() ? std::nullopt : cutInto(a, sizes, mesh);
      auto target = sizes.empty() ? std::nullopt : cutInto(b, sizes, mesh);
      if (now && target) {
        for (auto [size, axes, wanted] : llvm::zip(sizes, *now, *target))
          factors.push_back({size, axes, wanted});
        continue;
      }
      unmatched.push_back({unsigned(factors.size()), unsigned(a.size()), unsigned(dim)});
      for (const SubFactor &factor : a)
        factors.push_back({factor.size, factor.axes, {}});
    }
  }

  int64_t shards(ArrayRef<StringAttr> axes) const { return mesh.getShards(axes); }
  int64_t localSize(const Factor &p) const { return mesh.getShardSize(p.size, p.axes); }

  SmallVector<int64_t> getFactorShape() const {
    SmallVector<int64_t> local;
    for (const Factor &factor : factors)
      local.push_back(localSize(factor));
    return local;
  }

  void reshapeTo(ArrayRef<int64_t> wanted) {
    if (ArrayRef<int64_t>(shape) == wanted)
      return;
    shape.assign(wanted.begin(), wanted.end());
    steps.push_back({Kind::Reshape, shape});
  }

  void add(Kind kind, unsigned dim, int64_t size, ArrayRef<StringAttr> axes = {},
           ReductionKind reduction = ReductionKind::Sum) {
    shape[dim] = size;
    steps.push_back({kind, shape, Axes(mesh.getDeviceAxes(axes)), dim, 0, reduction});
  }

  //===--- axes that can be added to and removed from a factor ---===//

  /// Returns true if sharding over `major` and then `minor` only subdivides the shards over
  /// `major`. Counterexample: size 5 over 2 gives shards of 3 elements, which 2 x 2 shards of 2
  /// elements do not subdivide.
  bool nests(int64_t size, ArrayRef<StringAttr> major, ArrayRef<StringAttr> minor) const {
    if (major.empty())
      return true;
    SmallVector<StringAttr> all(major);
    llvm::append_range(all, minor);
    return mesh.getShardSize(size, major) == mesh.getShardSize(size, all) * shards(minor);
  }

  /// Returns the length of the common prefix of the current and the target axes of a factor.
  /// Returns 0 if the remaining axes of either list do not nest in the shards of this prefix.
  unsigned getStaying(const Factor &p) const {
    unsigned n = 0;
    while (n < p.axes.size() && n < p.target.size() && p.axes[n] == p.target[n])
      ++n;
    ArrayRef<StringAttr> now(p.axes), target(p.target);
    bool fits = nests(p.size, now.take_front(n), now.drop_front(n)) &&
                nests(p.size, now.take_front(n), target.drop_front(n));
    return fits ? n : 0;
  }

  bool isReady(const Factor &p) const { return getStaying(p) == p.axes.size(); }
  ArrayRef<StringAttr> getMissing(const Factor &p) const {
    return ArrayRef<StringAttr>(p.target).drop_front(p.axes.size());
  }

  /// Returns the longest prefix of a factor's missing axes for which `take` returns true. Returns
  /// no axes if the factor still has axes to remove, or if the other missing axes do not nest in
  /// this prefix.
  SmallVector<StringAttr> getNext(unsigned dim, llvm::function_ref<bool(StringAttr)> take) const {
    const Factor &factor = factors[dim];
    if (!isReady(factor))
      return {};
    SmallVector<StringAttr> axes(getMissing(factor).take_while(take));
    ArrayRef<StringAttr> target(factor.target);
    unsigned n = factor.axes.size() + axes.size();
    if (!nests(factor.size, target.take_front(n), target.drop_front(n)))
      return {};
    return axes;
  }

  bool isUnusedAxis(StringAttr axis) const {
    auto isAxis = [&](PartialAttr p) { return p.getAxis() == axis; };
    return llvm::none_of(partial, isAxis) && llvm::none_of(kept, isAxis) &&
           llvm::none_of(factors,
                         [&](const Factor &p) { return llvm::is_contained(p.axes, axis); });
  }

  //===--- the steps ---===//

  void sliceOver(unsigned dim, ArrayRef<StringAttr> axes) {
    Factor &factor = factors[dim];
    SmallVector<StringAttr> added(axes);
    llvm::append_range(factor.axes, added);
    if (shards(added) > 1)
      add(Kind::ShardSlice, dim, localSize(factor), added);
    else if (shape[dim] != localSize(factor))
      add(Kind::Pad, dim, localSize(factor));
  }

  void sliceFreeAxes() {
    for (unsigned dim = 0; dim < factors.size(); ++dim) {
      auto axes = getNext(dim, [&](StringAttr axis) { return isUnusedAxis(axis); });
      if (!axes.empty())
        sliceOver(dim, axes);
    }
  }

  std::optional<ReductionKind> getPending(StringAttr axis) const {
    for (PartialAttr p : partial)
      if (p.getAxis() == axis)
        return p.getKind();
    return std::nullopt;
  }

  void reduceScatter() {
    for (unsigned dim = 0; dim < factors.size(); ++dim) {
      if (!isReady(factors[dim]) || getMissing(factors[dim]).empty())
        continue;
      auto kind = getPending(getMissing(factors[dim]).front());
      if (!kind)
        continue;
      auto axes = getNext(dim, [&](StringAttr axis) { return getPending(axis) == kind; });
      if (axes.empty())
        continue;
      padTo(dim, axes);
      llvm::append_range(factors[dim].axes, axes);
      add(Kind::ReduceScatter, dim, localSize(factors[dim]), axes, *kind);
      llvm::erase_if(partial, [&](PartialAttr p) { return llvm::is_contained(axes, p.getAxis()); });
    }
  }

  /// Pads a factor so that it splits evenly over `axes`.
  void padTo(unsigned dim, ArrayRef<StringAttr> axes) {
    SmallVector<StringAttr> all(factors[dim].axes.begin(), factors[dim].axes.end());
    llvm::append_range(all, axes);
    int64_t even = mesh.getShardSize(factors[dim].size, all) * shards(axes);
    if (even != shape[dim])
      add(Kind::Pad, dim, even);
  }

  void allReduce() {
    for (ReductionKind kind : {ReductionKind::Sum, ReductionKind::Max, ReductionKind::Min}) {
      Axes axes;
      for (PartialAttr p : partial)
        if (p.getKind() == kind)
          axes.push_back(p.getAxis());
      if (!axes.empty())
        steps.push_back({Kind::AllReduce, shape, axes, 0, 0, kind});
    }
    partial.clear();
  }

  void allToAll() {
    for (unsigned dim = 0; dim < factors.size(); ++dim) {
      unsigned staying = getStaying(factors[dim]);
      if (staying == factors[dim].axes.size())
        continue;
      SmallVector<StringAttr> moving(ArrayRef<StringAttr>(factors[dim].axes).drop_front(staying));
      for (unsigned other = 0; other < factors.size(); ++other) {
        auto isMoving = [&](StringAttr axis) { return llvm::is_contained(moving, axis); };
        if (other == dim || getNext(other, isMoving) != moving)
          continue;
        exchange(dim, other, moving, staying);
        break;
      }
    }
  }

  /// Moves `axes` from the end of `dim`'s list to the end of `other`'s list, with an all-to-all.
  void exchange(unsigned dim, unsigned other, ArrayRef<StringAttr> axes, unsigned staying) {
    padTo(other, axes);
    llvm::append_range(factors[other].axes, axes);
    factors[dim].axes.truncate(staying);
    shape[other] = localSize(factors[other]);
    shape[dim] *= shards(axes);
    steps.push_back({Kind::AllToAll, shape, Axes(mesh.getDeviceAxes(axes)), other, dim});
    cutPadding(dim);
  }

  void cutPadding(unsigned dim) {
    if (shape[dim] != localSize(factors[dim]))
      add(Kind::Slice, dim, localSize(factors[dim]));
  }

  void allGather() {
    for (unsigned dim = 0; dim < factors.size(); ++dim) {
      unsigned staying = getStaying(factors[dim]);
      if (staying == factors[dim].axes.size())
        continue;
      SmallVector<StringAttr> axes(ArrayRef<StringAttr>(factors[dim].axes).drop_front(staying));
      factors[dim].axes.truncate(staying);
      if (shards(axes) > 1)
        add(Kind::AllGather, dim, shape[dim] * shards(axes), axes);
      cutPadding(dim);
    }
  }

  /// Replaces the factors of each unmatched dim by the factors of the target. The dim is already
  /// gathered.
  void refactorUnmatchedDims() {
    for (auto [first, count, dim] : llvm::reverse(unmatched)) {
      factors.erase(factors.begin() + first, factors.begin() + first + count);
      SmallVector<Factor> replacement;
      for (const SubFactor &factor : toSplits[dim])
        replacement.push_back({factor.size, {}, factor.axes});
      factors.insert(factors.begin() + first, replacement.begin(), replacement.end());
    }
    reshapeTo(getFactorShape());
  }

  void slice() {
    for (unsigned dim = 0; dim < factors.size(); ++dim) {
      assert(isReady(factors[dim]) && "allGather removes all axes that are not in the target");
      SmallVector<StringAttr> axes(getMissing(factors[dim]));
      if (!axes.empty())
        sliceOver(dim, axes);
    }
  }

  /// Turns a replicated value into a partial sum over the added axes. Partial maxima and minima
  /// need no step, because a replicated value already is a valid partial maximum or minimum.
  void keepFirst() {
    Axes axes;
    for (PartialAttr p : added)
      if (p.getKind() == ReductionKind::Sum)
        axes.push_back(p.getAxis());
    if (!axes.empty())
      steps.push_back({Kind::KeepFirst, shape, axes});
  }

  struct Unmatched {
    unsigned first, count, dim;
  };
  const MeshShape &mesh;
  TensorSplits fromSplits, toSplits;
  SmallVector<PartialAttr> partial, kept, added;
  SmallVector<Factor> factors;
  SmallVector<Unmatched> unmatched;
  SmallVector<int64_t> shape;
  SmallVector<ReshardStep> steps;
};
} // namespace

SmallVector<ReshardStep> planReshard(ArrayRef<int64_t> shape, ShardingAttr from, ShardingAttr to,
                                     const MeshShape &mesh) {
  return Planner(shape, from, to, mesh).run();
}

} // namespace parashard::sharding
