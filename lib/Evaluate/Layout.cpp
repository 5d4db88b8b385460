// Scatters unsharded tensors to ranks and gathers them again.
#include "lib/Evaluate/Layout.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::evaluate {

Layout::Layout(MeshOp mesh) : mesh(mesh) {
  if (!mesh)
    return;
  for (Attribute attr : mesh.getAxes()) {
    auto axis = cast<AxisAttr>(attr);
    if (axis.getKind() == AxisKind::Pipeline)
      continue;
    axes.push_back({axis.getName(), axis.getDevices(), 1});
    rankCount *= axis.getDevices();
  }
  int64_t stride = 1;
  for (Axis &axis : llvm::reverse(axes)) {
    axis.stride = stride;
    stride *= axis.size;
  }
}

const Layout::Axis *Layout::find(StringAttr name) const {
  for (const Axis &axis : axes)
    if (axis.name == name)
      return &axis;
  return nullptr;
}

int64_t Layout::getShardIndex(int64_t rank, ArrayRef<StringAttr> names) const {
  int64_t index = 0;
  for (StringAttr name : names)
    if (const Axis *axis = find(name))
      index = index * axis->size + getCoordinate(rank, *axis);
  return index;
}

static SmallVector<StringAttr> toNames(ArrayAttr axes) {
  return llvm::map_to_vector(axes, [](Attribute a) { return cast<StringAttr>(a); });
}

int64_t Layout::getShardIndex(int64_t rank, ArrayAttr names) const {
  return getShardIndex(rank, toNames(names));
}

int64_t Layout::getShards(ArrayRef<StringAttr> names) const {
  int64_t shards = 1;
  for (StringAttr name : names)
    if (const Axis *axis = find(name))
      shards *= axis->size;
  return shards;
}

int64_t Layout::getShardSize(int64_t size, ArrayRef<StringAttr> names) const {
  MeshOp op = mesh; // the methods of an op are not const
  return op ? op.getShardSize(size, names) : size;
}

SmallVector<int64_t> Layout::getGroup(int64_t rank, ArrayAttr names) const {
  int64_t base = rank;
  for (StringAttr name : toNames(names))
    if (const Axis *axis = find(name))
      base -= getCoordinate(rank, *axis) * axis->stride;
  SmallVector<int64_t> members{base};
  for (StringAttr name : toNames(names)) {
    const Axis *axis = find(name);
    if (!axis)
      continue;
    SmallVector<int64_t> next;
    for (int64_t member : members)
      for (int64_t i = 0; i < axis->size; ++i)
        next.push_back(member + i * axis->stride);
    members = next;
  }
  return members;
}

int64_t Layout::getDimIndex(int64_t rank, DimAttr dim, int64_t size, int64_t local) const {
  if (dim.getFactors().empty())
    return local;
  int64_t global = 0, globalStride = 1;
  for (FactorAttr factor : llvm::reverse(dim.getFactors())) {
    int64_t n = factor.getSize() ? factor.getSize() : size;
    int64_t elements = getShardSize(n, factor.getAxes());
    int64_t element = getShardIndex(rank, factor.getAxes()) * elements + local % elements;
    if (element >= n)
      return -1;
    global += element * globalStride;
    globalStride *= n;
    local /= elements;
  }
  return global;
}

int64_t Layout::getGlobalIndex(int64_t rank, ArrayRef<int64_t> shape, ShardingAttr sharding,
                               ArrayRef<int64_t> local) const {
  int64_t index = 0;
  for (auto [d, size] : llvm::enumerate(shape)) {
    int64_t position = getDimIndex(rank, sharding.getDims()[d], size, local[d]);
    if (position < 0)
      return -1;
    index = index * size + position;
  }
  return index;
}

/// Returns true if `rank` gets the value when a complete tensor is converted to a partial one. For
/// a partial sum, only shard 0 of the axis gets the value. For a partial maximum or minimum, all
/// shards get the value.
static bool holdsPartial(const Layout &layout, int64_t rank, ShardingAttr sharding) {
  return llvm::all_of(sharding.getPartial(), [&](PartialAttr partial) {
    return partial.getKind() != ReductionKind::Sum ||
           layout.getShardIndex(rank, ArrayRef(partial.getAxis())) == 0;
  });
}

PerRank Layout::scatter(const Tensor &whole, ShardingAttr sharding) const {
  PerRank shards(rankCount, whole);
  if (!sharding)
    return shards;
  RankedTensorType localType = getLocalType(whole.getType(), sharding, mesh);
  for (int64_t rank = 0; rank < rankCount; ++rank) {
    Tensor shard(localType);
    bool holds = holdsPartial(*this, rank, sharding);
    for (int64_t i = 0; holds && i < shard.size(); ++i) {
      int64_t global = getGlobalIndex(rank, whole.getShape(), sharding, shard.delinearize(i));
      if (global < 0)
        continue;
      if (whole.isFloat())
        shard.set(i, whole.get(global));
      else
        shard.setInt(i, whole.getInt(global));
    }
    shards[rank] = std::move(shard);
  }
  return shards;
}

void Layout::fillPadding(PerRank &shards, RankedTensorType type, ShardingAttr sharding) const {
  for (int64_t rank = 0; rank < rankCount; ++rank) {
    Tensor &shard = shards[rank];
    Tensor unspecified(shard.getType());
    unspecified.fillUnspecified();
    for (int64_t i = 0; i < shard.size(); ++i) {
      if (getGlobalIndex(rank, type.getShape(), sharding, shard.delinearize(i)) >= 0)
        continue;
      if (shard.isFloat())
        shard.set(i, unspecified.get(i));
      else
        shard.setInt(i, unspecified.getInt(i));
    }
  }
}

Tensor Layout::gather(const PerRank &shards, RankedTensorType type, ShardingAttr sharding) const {
  if (!sharding)
    return shards.front();
  Tensor whole(type);
  // For each element and each position along the partial axes, only the first rank contributes.
  // Later ranks with the same values are skipped.
  std::vector<llvm::SmallDenseSet<int64_t, 4>> seen(whole.size());
  SmallVector<StringAttr> partialAxes;
  for (PartialAttr partial : sharding.getPartial())
    partialAxes.push_back(partial.getAxis());
  for (int64_t rank = 0; rank < rankCount; ++rank) {
    const Tensor &shard = shards[rank];
    int64_t partialShard = getShardIndex(rank, partialAxes);
    for (int64_t i = 0; i < shard.size(); ++i) {
      int64_t global = getGlobalIndex(rank, whole.getShape(), sharding, shard.delinearize(i));
      if (global < 0 || !seen[global].insert(partialShard).second)
        continue;
      if (!whole.isFloat())
        whole.setInt(global, shard.getInt(i));
      else if (seen[global].size() == 1)
        whole.set(global, shard.get(i));
      else
        whole.set(global, combine(sharding.getPartial().front().getKind(), whole.get(global),
                                  shard.get(i)));
    }
  }
  return whole;
}

} // namespace parashard::evaluate
