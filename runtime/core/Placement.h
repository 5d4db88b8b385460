// Describes where the elements of a global tensor live: maps (coordinates, local index) to a global
// index.
#ifndef PSRT_CORE_PLACEMENT_H
#define PSRT_CORE_PLACEMENT_H

#include "runtime/core/ProgramKinds.h"
#include <cstdint>
#include <string>
#include <vector>

namespace psrt {

/// The devices of a job, arranged along named axes. Ranks are numbered in row-major order: the last
/// axis varies fastest.
struct Mesh {
  /// A named axis of the mesh.
  struct Axis {
    std::string name;
    AxisKind kind = AxisKind::Data;
    int64_t size = 1;
  };
  std::vector<Axis> axes;

  int64_t size() const;
  /// Returns the index of an axis. Fails on an unknown name.
  int axis(const std::string &name) const;
  std::vector<int64_t> coordinates(int64_t rank) const;
  /// Returns the row-major index of `coordinates` over the axes `over`. `shards` returns the number
  /// of such indices.
  int64_t shardIndex(const std::vector<int> &over, const std::vector<int64_t> &coordinates) const;
  int64_t shards(const std::vector<int> &over) const;
  /// Returns `rank` and the ranks whose coordinates differ from it only on the axes `over`, by
  /// ascending shard index.
  std::vector<int> group(int64_t rank, const std::vector<int> &over) const;
  /// Returns the index of the pipeline axis, or -1 if the mesh has none.
  int pipelineAxis() const;
  int64_t pipelineSize() const;
  /// Returns the coordinate on the pipeline axis, or 0 if the mesh has none.
  int64_t pipelineCoordinate(const std::vector<int64_t> &coordinates) const;
  /// Returns the ranks with the pipeline coordinates `over`, in this order, and the coordinates of
  /// `rank` on all other axes.
  std::vector<int> acrossPipeline(int64_t rank, const std::vector<int64_t> &over) const;
  /// Returns the mesh as text: "dp=2,tp=2".
  std::string text() const;
};

/// The layout of a tensor over the mesh. A dim is split into factors, major to minor, whose sizes
/// multiply to the size of the dim. A factor of size n over k shards has c elements per shard: c is
/// `given` if set, else ceil(n / k). Shard r holds the elements [r c, min((r + 1) c, n)). Example:
/// n = 10 over k = 4 gives c = 3; shard 3 holds [9, 10).
struct Placement {
  /// A factor of a dim and the axes that split it.
  struct Factor {
    int64_t size = 1;
    std::vector<int> axes;
    int64_t given = 0; ///< elements per shard, if padded to more than ceil(size / shards); else 0
    /// Returns the elements on each shard, including padding.
    int64_t localSize(const Mesh &mesh) const;
    bool operator==(const Factor &) const = default;
  };
  std::vector<int64_t> shape, local;
  std::vector<std::vector<Factor>> factors; ///< per dim, major to minor
  std::vector<int> partial;                 ///< axes over which the value is a sum
  bool operator==(const Placement &) const = default;

  int64_t count() const;
  int64_t localCount() const;

  /// Returns the global index along `dim` of local index `local` for the rank at `coordinates`, or
  /// -1 for padding.
  int64_t globalIndex(const Mesh &mesh, const std::vector<int64_t> &coordinates, unsigned dim,
                      int64_t local) const;
  /// Returns the global index of each local index of a dim (-1: padding).
  std::vector<int64_t> globalIndices(const Mesh &mesh, const std::vector<int64_t> &coordinates,
                                     unsigned dim) const;
  /// Returns whether the rank at `coordinates` is the owner of its shard. Among ranks with equal
  /// data, the owner has coordinate 0 on every axis that neither splits the tensor nor makes it
  /// partial. On the pipeline axis, the owner has coordinate `stage`.
  bool isOwner(const Mesh &mesh, const std::vector<int64_t> &coordinates, int64_t stage = 0) const;
  /// Computes `local` from the factors.
  std::vector<int64_t> computeLocal(const Mesh &mesh) const;
  /// Returns the placement of a tensor that every rank holds whole.
  static Placement whole(std::vector<int64_t> shape);
};

/// Calls copy(localOffset, globalOffset, count) for every run of elements that is contiguous in
/// both the local and the global row-major tensor. Padding is skipped. Example: columns [2, 4) of a
/// 2 x 4 tensor give (0, 2, 2) and (2, 6, 2).
template <typename Copy>
void forEachRun(const Placement &placement, const Mesh &mesh,
                const std::vector<int64_t> &coordinates, Copy copy) {
  size_t rank = placement.shape.size();
  if (rank == 0) {
    copy(int64_t(0), int64_t(0), int64_t(1));
    return;
  }
  std::vector<std::vector<int64_t>> index(rank);
  std::vector<int64_t> globalStride(rank, 1), localStride(rank, 1);
  for (size_t d = 0; d < rank; ++d)
    index[d] = placement.globalIndices(mesh, coordinates, d);
  for (size_t d = rank - 1; d-- > 0;) {
    globalStride[d] = globalStride[d + 1] * placement.shape[d + 1];
    localStride[d] = localStride[d + 1] * placement.local[d + 1];
  }
  // Trailing dims that are not split extend the runs of the dim before them.
  auto isWhole = [&](size_t dim) {
    for (int64_t i = 0; i < placement.local[dim]; ++i)
      if (index[dim][i] != i)
        return false;
    return placement.local[dim] == placement.shape[dim];
  };
  size_t last = rank - 1;
  while (last > 0 && isWhole(last))
    --last;
  int64_t stride = localStride[last];
  std::vector<int64_t> at(last, 0);
  for (int64_t d = 0; d < int64_t(rank); ++d)
    if (placement.local[d] == 0)
      return;
  while (true) {
    int64_t localBase = 0, globalBase = 0;
    bool padding = false;
    for (size_t d = 0; d < last; ++d) {
      padding |= index[d][at[d]] < 0;
      localBase += at[d] * localStride[d];
      globalBase += index[d][at[d]] * globalStride[d];
    }
    const std::vector<int64_t> &row = index[last];
    for (int64_t i = 0, n = row.size(); !padding && i < n;) {
      int64_t j = i + 1;
      while (row[i] >= 0 && j < n && row[j] == row[i] + (j - i))
        ++j;
      if (row[i] >= 0)
        copy(localBase + i * stride, globalBase + row[i] * stride, (j - i) * stride);
      i = j;
    }
    size_t d = last;
    while (d > 0 && ++at[d - 1] == placement.local[d - 1])
      at[--d] = 0;
    if (d == 0)
      return;
  }
}

} // namespace psrt

#endif
