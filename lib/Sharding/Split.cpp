// Cuts and joins the splits of index ranges.
#include "lib/Sharding/Split.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

MeshShape::MeshShape(MeshOp mesh)
    : wholeDim(DimAttr::get(mesh.getContext(),
                            FactorAttr::get(mesh.getContext(), 0, ArrayRef<StringAttr>()))),
      symbol(FlatSymbolRefAttr::get(mesh.getSymNameAttr())) {
  for (Attribute axis : mesh.getAxes())
    axes.push_back(cast<AxisAttr>(axis));
  for (AxisAttr axis : axes)
    if (axis.getKind() == AxisKind::Multiple)
      multiple = axis;
  constexpr int64_t usualRanks = 8;
  for (int64_t rank = 0; rank < usualRanks; ++rank)
    replicated.push_back(
        ShardingAttr::get(getContext(), symbol, SmallVector<DimAttr>(rank, wholeDim), {}));
}

ShardingAttr MeshShape::getReplicated(int64_t rank) const {
  if (rank < int64_t(replicated.size()))
    return replicated[rank];
  return ShardingAttr::get(getContext(), symbol, SmallVector<DimAttr>(rank, wholeDim), {});
}

bool MeshShape::isReplicated(ShardingAttr sharding) const {
  return !sharding || sharding == getReplicated(sharding.getDims().size());
}

int MeshShape::find(StringAttr axis) const {
  for (auto [i, a] : llvm::enumerate(axes))
    if (a.getName() == axis)
      return i;
  return -1;
}

int64_t MeshShape::getSize(StringAttr axis) const {
  int i = find(axis);
  return i < 0 ? 1 : axes[i].getDevices();
}

AxisKind MeshShape::getKind(StringAttr axis) const {
  int i = find(axis);
  assert(i >= 0 && "the axis must be in the mesh");
  return axes[i].getKind();
}

std::string MeshShape::listAxes(llvm::function_ref<bool(AxisAttr)> take) const {
  std::string list;
  for (AxisAttr axis : axes)
    if (take(axis))
      list += (list.empty() ? "\"" : ", \"") + axis.getName().str() + "\"";
  return list;
}

std::string MeshShape::listSplittingAxes() const {
  return listAxes([&](AxisAttr axis) {
    return splitsTensors(axis.getName()) && axis.getKind() != AxisKind::Multiple;
  });
}

int64_t MeshShape::getShards(ArrayRef<StringAttr> names) const {
  int64_t shards = 1;
  for (StringAttr axis : names)
    shards *= getSize(axis);
  return shards;
}

int64_t MeshShape::getShardSize(int64_t size, ArrayRef<StringAttr> names) const {
  int64_t elements = llvm::divideCeil(size, getShards(names));
  bool isMultiple = multiple && llvm::is_contained(names, multiple.getName());
  return isMultiple ? llvm::alignTo(elements, multiple.getSize()) : elements;
}

SmallVector<StringAttr> MeshShape::getDeviceAxes(ArrayRef<StringAttr> names) const {
  SmallVector<StringAttr> result(names);
  llvm::erase(result, getMultiple());
  return result;
}

SmallVector<StringAttr> MeshShape::getAxes(ArrayRef<AxisKind> kinds) const {
  SmallVector<StringAttr> names;
  for (AxisAttr axis : axes)
    if (axis.getDevices() > 1 && llvm::is_contained(kinds, axis.getKind()))
      names.push_back(axis.getName());
  return names;
}

Split wholeSplit(int64_t size) { return {SubFactor{size, {}}}; }

Split makeSplit(int64_t size, ArrayRef<StringAttr> axes) {
  return {SubFactor{size, SmallVector<StringAttr, 2>(axes)}};
}

SmallVector<StringAttr> getAxes(const Split &split) {
  SmallVector<StringAttr> axes;
  for (const SubFactor &factor : split)
    llvm::append_range(axes, factor.axes);
  return axes;
}

bool isWhole(const Split &split) {
  return llvm::all_of(split, [](const SubFactor &factor) { return factor.axes.empty(); });
}

int64_t getLocalSize(const Split &split, const MeshShape &mesh) {
  int64_t size = 1;
  for (const SubFactor &factor : split)
    size *= mesh.getShardSize(factor.size, factor.axes);
  return size;
}

static int64_t getSize(const Split &split) {
  int64_t size = 1;
  for (const SubFactor &factor : split)
    size *= factor.size;
  return size;
}

/// Merges `minor` into `major` if the merged factor has the same shards. Otherwise returns false.
static bool mergeInto(SubFactor &major, const SubFactor &minor, const MeshShape &mesh) {
  bool minorWhole = minor.axes.empty();
  bool evenBlocks = minorWhole && mesh.isEven(major.size, major.axes);
  bool oneElementEach = mesh.getShards(major.axes) == major.size &&
                        mesh.getShardSize(major.size, major.axes) == 1 &&
                        mesh.isEven(minor.size, minor.axes);
  if (!evenBlocks && !oneElementEach)
    return false;
  major.size *= minor.size;
  llvm::append_range(major.axes, minor.axes);
  return true;
}

static bool isOneWholeFactor(const Split &split) {
  return split.size() == 1 && split.front().axes.empty();
}

/// Drops the axes that do not change the shards.
static void dropIdleAxes(SubFactor &factor, const MeshShape &mesh) {
  SmallVector<StringAttr> devices = mesh.getDeviceAxes(factor.axes);
  bool adds =
      mesh.getShardSize(factor.size, factor.axes) != mesh.getShardSize(factor.size, devices);
  llvm::erase_if(factor.axes, [&](StringAttr axis) {
    return axis == mesh.getMultiple() ? !adds : mesh.getSize(axis) == 1;
  });
}

Split simplify(const Split &split, const MeshShape &mesh) {
  if (isOneWholeFactor(split))
    return split;
  int64_t total = getSize(split);
  if (total == 0)
    return wholeSplit(0);
  Split result;
  for (SubFactor factor : split) {
    dropIdleAxes(factor, mesh);
    if (factor.size == 1 && factor.axes.empty())
      continue;
    result.push_back(std::move(factor));
    while (result.size() > 1 && mergeInto(result[result.size() - 2], result.back(), mesh))
      result.pop_back();
  }
  return result.empty() ? wholeSplit(total) : result;
}

Split join(ArrayRef<Split> parts, const MeshShape &mesh) {
  Split all;
  for (const Split &part : parts)
    all.append(part.begin(), part.end());
  if (all.empty())
    return wholeSplit(1);
  return simplify(all, mesh);
}

namespace {
/// Cuts parts of given sizes from the major end of a split. Example: cutting 4 and then 16 from
/// `64 {dp}` with dp=2 gives `4 {dp}` and `16`.
class Cutter {
public:
  Cutter(const Split &split, const MeshShape &mesh) : mesh(mesh) {
    Split factors = simplify(split, mesh);
    rest.assign(factors.rbegin(), factors.rend());
  }

  Split take(int64_t size) {
    Split part;
    int64_t wanted = size;
    if (wanted == 1 && !rest.empty() && rest.back().size == 1)
      part.push_back(rest.pop_back_val());
    while (wanted > 1) {
      if (rest.empty())
        return giveUp(part, size);
      SubFactor &front = rest.back();
      if (wanted % front.size == 0) {
        wanted /= front.size;
        part.push_back(rest.pop_back_val());
      } else if (front.size % wanted == 0) {
        part.push_back(takeMajor(front, wanted));
        wanted = 1;
      } else {
        return giveUp(part, size);
      }
    }
    return part.empty() ? wholeSplit(size) : part;
  }

  /// Returns the axes that did not fit the parts, and the axes of the remaining factors.
  SmallVector<StringAttr> getDropped() {
    for (const SubFactor &factor : rest)
      llvm::append_range(dropped, factor.axes);
    return dropped;
  }

private:
  /// Splits `factor` into a major factor of `size` indices and a minor factor. Returns the major
  /// factor, and sets `factor` to the minor one. Example: for `64 {dp}` with dp=2 and size 4,
  /// returns `4 {dp}` and leaves `16`.
  SubFactor takeMajor(SubFactor &factor, int64_t size) {
    // Padding is at the end of the whole factor, so a part cannot keep the padding axis.
    if (llvm::is_contained(factor.axes, mesh.getMultiple())) {
      dropped.push_back(mesh.getMultiple());
      llvm::erase(factor.axes, mesh.getMultiple());
    }
    int64_t minor = factor.size / size;
    if (size % mesh.getShards(factor.axes) == 0) {
      SubFactor major{size, std::move(factor.axes)};
      factor = {minor, {}};
      return major;
    }
    for (unsigned n = 1; n < factor.axes.size(); ++n) {
      ArrayRef<StringAttr> axes(factor.axes);
      if (mesh.getShards(axes.take_front(n)) != size ||
          minor % mesh.getShards(axes.drop_front(n)) != 0)
        continue;
      SubFactor major{size, SmallVector<StringAttr, 2>(axes.take_front(n))};
      factor = {minor, SmallVector<StringAttr, 2>(axes.drop_front(n))};
      return major;
    }
    llvm::append_range(dropped, factor.axes);
    factor = {minor, {}};
    return {size, {}};
  }

  /// Drops the axes of `part` and of the remaining factors, since none of their boundaries fits
  /// `size`. Returns a whole split.
  Split giveUp(const Split &part, int64_t size) {
    llvm::append_range(dropped, getAxes(part));
    for (const SubFactor &factor : rest)
      llvm::append_range(dropped, factor.axes);
    rest.clear();
    return wholeSplit(size);
  }

  const MeshShape &mesh;
  SmallVector<SubFactor> rest; // remaining factors, from minor to major
  SmallVector<StringAttr> dropped;
};
} // namespace

SmallVector<Split> cut(const Split &split, ArrayRef<int64_t> sizes, const MeshShape &mesh,
                       SmallVectorImpl<StringAttr> *dropped) {
  SmallVector<Split> parts;
  if (isWhole(split)) {
    for (int64_t size : sizes)
      parts.push_back(wholeSplit(size));
    return parts;
  }
  Cutter cutter(split, mesh);
  for (int64_t size : sizes)
    parts.push_back(cutter.take(size));
  if (dropped)
    llvm::append_range(*dropped, cutter.getDropped());
  return parts;
}

Split without(const Split &split, llvm::function_ref<bool(StringAttr)> remove) {
  Split result = split;
  for (SubFactor &factor : result)
    llvm::erase_if(factor.axes, remove);
  return result;
}

Split getSplit(DimAttr dim, int64_t size) {
  Split split;
  for (FactorAttr factor : dim.getFactors())
    split.push_back({factor.getSize() == 0 ? size : factor.getSize(),
                     SmallVector<StringAttr, 2>(factor.getAxes())});
  return split.empty() ? wholeSplit(size) : split;
}

DimAttr getDimAttr(const Split &split, const MeshShape &mesh) {
  if (isOneWholeFactor(split))
    return mesh.getWholeDim();
  MLIRContext *context = mesh.getContext();
  SmallVector<FactorAttr> factors;
  for (const SubFactor &factor : split)
    factors.push_back(FactorAttr::get(context, split.size() == 1 ? 0 : factor.size, factor.axes));
  return DimAttr::get(context, factors);
}

TensorSplits getSplits(ShardingAttr sharding, ArrayRef<int64_t> shape, const MeshShape &mesh) {
  TensorSplits splits;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    if (sharding && dim < sharding.getDims().size() &&
        sharding.getDims()[dim] != mesh.getWholeDim())
      splits.push_back(simplify(getSplit(sharding.getDims()[dim], size), mesh));
    else
      splits.push_back(wholeSplit(size));
  }
  return splits;
}

ShardingAttr getShardingAttr(const TensorSplits &splits, ArrayRef<PartialAttr> partial,
                             const MeshShape &mesh) {
  if (partial.empty() && llvm::all_of(splits, isOneWholeFactor))
    return mesh.getReplicated(splits.size());
  SmallVector<DimAttr> dims;
  for (const Split &split : splits)
    dims.push_back(getDimAttr(simplify(split, mesh), mesh));
  SmallVector<PartialAttr> sorted;
  for (AxisAttr axis : mesh.getAxes())
    for (PartialAttr p : partial)
      if (p.getAxis() == axis.getName() && axis.getDevices() > 1)
        sorted.push_back(p);
  return ShardingAttr::get(mesh.getContext(), mesh.getSymbol(), dims, sorted);
}

ShardingAttr simplify(ShardingAttr sharding, ArrayRef<int64_t> shape, const MeshShape &mesh) {
  if (mesh.isReplicated(sharding))
    return mesh.getReplicated(shape.size());
  ArrayRef<PartialAttr> partial;
  if (sharding)
    partial = sharding.getPartial();
  return getShardingAttr(getSplits(sharding, shape, mesh), partial, mesh);
}

} // namespace parashard::sharding
