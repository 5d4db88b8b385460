// Plans reshardings on factors: every dim is read as the common factors of both shardings.
#include "lib/Partition/Reshard.h"
#include "llvm/Support/MathExtras.h"
#include <set>

using namespace mlir;

namespace parashard::ps {

namespace {
using Axes = SmallVector<StringAttr, 2>;
using Kind = ReshardStep::Kind;

/// One factor of a dim: a dim of the expanded local tensor.
struct Place {
  int64_t size;
  Axes axes;   ///< what splits it now
  Axes target; ///< what is to split it
};

/// Products of the minor factors at every border of a split (its own size included).
std::set<int64_t> getBorders(const Split &split) {
  std::set<int64_t> borders;
  int64_t product = 1;
  for (const SubFactor &factor : llvm::reverse(split)) {
    product *= factor.size;
    borders.insert(product);
  }
  return borders;
}

/// The sizes of the common factors of two splits, major to minor; empty when borders do not nest.
SmallVector<int64_t> getCommonSizes(const Split &a, const Split &b) {
  std::set<int64_t> borders = getBorders(a);
  std::set<int64_t> others = getBorders(b);
  borders.insert(others.begin(), others.end());
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

/// A split cut into the factors of `sizes`, one axes list each; nothing when it cannot be.
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
    reshapeTo(getPlaceShape());
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

  /// Reads every dim as places. A dim whose two factorings do not nest is gathered under its own
  /// factors and read anew (`unmatched`).
  void readDims() {
    for (auto [dim, pair] : llvm::enumerate(llvm::zip(fromSplits, toSplits))) {
      const auto &[a, b] = pair;
      SmallVector<int64_t> sizes = getCommonSizes(a, b);
      auto now = sizes.empty() ? std::nullopt : cutInto(a, sizes, mesh);
      auto target = sizes.empty() ? std::nullopt : cutInto(b, sizes, mesh);
      if (now && target) {
        for (auto [size, axes, wanted] : llvm::zip(sizes, *now, *target))
          places.push_back({size, axes, wanted});
        continue;
      }
      unmatched.push_back({unsigned(places.size()), unsigned(a.size()), unsigned(dim)});
      for (const SubFactor &factor : a)
        places.push_back({factor.size, factor.axes, {}});
    }
  }

  int64_t shards(ArrayRef<StringAttr> axes) const { return mesh.getShards(axes); }
  int64_t localSize(const Place &p) const { return mesh.getShardSize(p.size, p.axes); }

  SmallVector<int64_t> getPlaceShape() const {
    SmallVector<int64_t> local;
    for (const Place &place : places)
      local.push_back(localSize(place));
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

  //===--- what may be added to and taken from a place ---===//

  /// Whether shards over `major` and then `minor` nest in those over `major` alone.
  bool nests(int64_t size, ArrayRef<StringAttr> major, ArrayRef<StringAttr> minor) const {
    if (major.empty())
      return true;
    SmallVector<StringAttr> all(major);
    llvm::append_range(all, minor);
    return mesh.getShardSize(size, major) == mesh.getShardSize(size, all) * shards(minor);
  }

  /// How many of a place's axes may stay: a prefix of both lists that both nest in.
  unsigned getStaying(const Place &p) const {
    unsigned n = 0;
    while (n < p.axes.size() && n < p.target.size() && p.axes[n] == p.target[n])
      ++n;
    ArrayRef<StringAttr> now(p.axes), target(p.target);
    bool fits = nests(p.size, now.take_front(n), now.drop_front(n)) &&
                nests(p.size, now.take_front(n), target.drop_front(n));
    return fits ? n : 0;
  }

  bool isReady(const Place &p) const { return getStaying(p) == p.axes.size(); }
  ArrayRef<StringAttr> getMissing(const Place &p) const {
    return ArrayRef<StringAttr>(p.target).drop_front(p.axes.size());
  }

  /// The first missing axes for which `take` holds, when the rest can still be added after them.
  SmallVector<StringAttr> getNext(unsigned dim, llvm::function_ref<bool(StringAttr)> take) const {
    const Place &place = places[dim];
    if (!isReady(place))
      return {};
    SmallVector<StringAttr> axes(getMissing(place).take_while(take));
    ArrayRef<StringAttr> target(place.target);
    unsigned n = place.axes.size() + axes.size();
    if (!nests(place.size, target.take_front(n), target.drop_front(n)))
      return {};
    return axes;
  }

  bool isFree(StringAttr axis) const {
    auto isAxis = [&](PartialAttr p) { return p.getAxis() == axis; };
    return llvm::none_of(partial, isAxis) && llvm::none_of(kept, isAxis) &&
           llvm::none_of(places, [&](const Place &p) { return llvm::is_contained(p.axes, axis); });
  }

  //===--- the steps ---===//

  void sliceOver(unsigned dim, ArrayRef<StringAttr> axes) {
    Place &place = places[dim];
    SmallVector<StringAttr> added(axes);
    llvm::append_range(place.axes, added);
    if (shards(added) > 1)
      add(Kind::ShardSlice, dim, localSize(place), added);
    else if (shape[dim] != localSize(place))
      add(Kind::Pad, dim, localSize(place));
  }

  void sliceFreeAxes() {
    for (unsigned dim = 0; dim < places.size(); ++dim) {
      auto axes = getNext(dim, [&](StringAttr axis) { return isFree(axis); });
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
    for (unsigned dim = 0; dim < places.size(); ++dim) {
      if (!isReady(places[dim]) || getMissing(places[dim]).empty())
        continue;
      auto kind = getPending(getMissing(places[dim]).front());
      if (!kind)
        continue;
      auto axes = getNext(dim, [&](StringAttr axis) { return getPending(axis) == kind; });
      if (axes.empty())
        continue;
      padTo(dim, axes);
      llvm::append_range(places[dim].axes, axes);
      add(Kind::ReduceScatter, dim, localSize(places[dim]), axes, *kind);
      llvm::erase_if(partial, [&](PartialAttr p) { return llvm::is_contained(axes, p.getAxis()); });
    }
  }

  /// Pads a place so that it is cut evenly over `axes`.
  void padTo(unsigned dim, ArrayRef<StringAttr> axes) {
    SmallVector<StringAttr> all(places[dim].axes.begin(), places[dim].axes.end());
    llvm::append_range(all, axes);
    int64_t even = mesh.getShardSize(places[dim].size, all) * shards(axes);
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
    for (unsigned dim = 0; dim < places.size(); ++dim) {
      unsigned staying = getStaying(places[dim]);
      if (staying == places[dim].axes.size())
        continue;
      SmallVector<StringAttr> moving(ArrayRef<StringAttr>(places[dim].axes).drop_front(staying));
      for (unsigned other = 0; other < places.size(); ++other) {
        auto isMoving = [&](StringAttr axis) { return llvm::is_contained(moving, axis); };
        if (other == dim || getNext(other, isMoving) != moving)
          continue;
        exchange(dim, other, moving, staying);
        break;
      }
    }
  }

  /// Moves `axes` from the end of `dim`'s list to the end of `other`'s.
  void exchange(unsigned dim, unsigned other, ArrayRef<StringAttr> axes, unsigned staying) {
    padTo(other, axes);
    llvm::append_range(places[other].axes, axes);
    places[dim].axes.truncate(staying);
    shape[other] = localSize(places[other]);
    shape[dim] *= shards(axes);
    steps.push_back({Kind::AllToAll, shape, Axes(mesh.getDeviceAxes(axes)), other, dim});
    cutPadding(dim);
  }

  void cutPadding(unsigned dim) {
    if (shape[dim] != localSize(places[dim]))
      add(Kind::Slice, dim, localSize(places[dim]));
  }

  void allGather() {
    for (unsigned dim = 0; dim < places.size(); ++dim) {
      unsigned staying = getStaying(places[dim]);
      if (staying == places[dim].axes.size())
        continue;
      SmallVector<StringAttr> axes(ArrayRef<StringAttr>(places[dim].axes).drop_front(staying));
      places[dim].axes.truncate(staying);
      if (shards(axes) > 1)
        add(Kind::AllGather, dim, shape[dim] * shards(axes), axes);
      cutPadding(dim);
    }
  }

  /// Dims that were gathered whole because their factorings do not nest get the target's.
  void refactorUnmatchedDims() {
    for (auto [first, count, dim] : llvm::reverse(unmatched)) {
      places.erase(places.begin() + first, places.begin() + first + count);
      SmallVector<Place> anew;
      for (const SubFactor &factor : toSplits[dim])
        anew.push_back({factor.size, {}, factor.axes});
      places.insert(places.begin() + first, anew.begin(), anew.end());
    }
    reshapeTo(getPlaceShape());
  }

  void slice() {
    for (unsigned dim = 0; dim < places.size(); ++dim) {
      assert(isReady(places[dim]) && "what is in the way was gathered");
      SmallVector<StringAttr> axes(getMissing(places[dim]));
      if (!axes.empty())
        sliceOver(dim, axes);
    }
  }

  /// A value that all ranks have alike becomes a sum over them; a maximum already is one.
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
  SmallVector<Place> places;
  SmallVector<Unmatched> unmatched;
  SmallVector<int64_t> shape;
  SmallVector<ReshardStep> steps;
};
} // namespace

SmallVector<ReshardStep> planReshard(ArrayRef<int64_t> shape, ShardingAttr from, ShardingAttr to,
                                     const MeshShape &mesh) {
  return Planner(shape, from, to, mesh).run();
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

namespace {
ArrayAttr getAxesAttr(OpBuilder &b, ArrayRef<StringAttr> axes) {
  return b.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()));
}

/// The value on the first rank over `axes`, zero on the others.
Value buildKeepFirst(OpBuilder &b, Location loc, Value value, ArrayRef<StringAttr> axes) {
  auto type = cast<RankedTensorType>(value.getType());
  auto index =
      ShardIndexOp::create(b, loc, RankedTensorType::get({}, b.getI64Type()), getAxesAttr(b, axes));
  auto first = ConstantOp::create(b, loc, cast<RankedTensorType>(index.getType()), 0.0);
  auto scalarBool = RankedTensorType::get({}, b.getI1Type());
  auto isFirst = CompareOp::create(b, loc, scalarBool, Predicate::Eq, index, first);
  Value everywhere = isFirst;
  if (type.getRank() > 0)
    everywhere =
        BroadcastOp::create(b, loc, type.clone(b.getI1Type()), isFirst, b.getDenseI64ArrayAttr({}));
  auto zero = ConstantOp::create(b, loc, type, 0.0);
  return SelectOp::create(b, loc, type, everywhere, value, zero);
}

Value buildPad(OpBuilder &b, Location loc, Value value, RankedTensorType type, unsigned dim) {
  auto from = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> low(type.getRank(), 0), high(type.getRank(), 0), by(type.getRank(), 1);
  high[dim] = type.getDimSize(dim) - from.getDimSize(dim);
  return PadOp::create(b, loc, type, value, b.getDenseI64ArrayAttr(low),
                       b.getDenseI64ArrayAttr(high), b.getDenseI64ArrayAttr(by));
}

Value buildStep(OpBuilder &b, Location loc, Value value, const ReshardStep &step) {
  auto type = cast<RankedTensorType>(value.getType()).clone(step.shape);
  ArrayAttr axes = getAxesAttr(b, step.axes);
  switch (step.kind) {
  case Kind::Reshape:
    return ReshapeOp::create(b, loc, type, value);
  case Kind::AllReduce:
    return AllReduceOp::create(b, loc, type, step.reduction, value, axes);
  case Kind::ReduceScatter:
    return ReduceScatterOp::create(b, loc, type, step.reduction, value, axes, step.dim);
  case Kind::AllGather:
    return AllGatherOp::create(b, loc, type, value, axes, step.dim);
  case Kind::AllToAll:
    return AllToAllOp::create(b, loc, type, value, axes, step.dim, step.other);
  case Kind::ShardSlice:
    return ShardSliceOp::create(b, loc, type, value, axes, step.dim);
  case Kind::Slice:
    return SliceOp::create(b, loc, value, step.dim, 0, step.shape[step.dim]);
  case Kind::Pad:
    return buildPad(b, loc, value, type, step.dim);
  case Kind::KeepFirst:
    return buildKeepFirst(b, loc, value, step.axes);
  }
  llvm_unreachable("all kinds are handled");
}
} // namespace

Value buildReshard(OpBuilder &builder, Location loc, Value value, ArrayRef<ReshardStep> steps) {
  for (const ReshardStep &step : steps)
    value = buildStep(builder, loc, value, step);
  return value;
}

} // namespace parashard::ps
