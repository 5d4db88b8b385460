// Where the elements of a global tensor live: the one function from (coordinates, local index) to
// global index.
#ifndef PSRT_CORE_PLACEMENT_H
#define PSRT_CORE_PLACEMENT_H

#include <cstdint>
#include <string>
#include <vector>

namespace psrt {

/// The devices, as named axes; the last axis varies fastest over ranks.
struct Mesh {
  struct Axis {
    std::string name, kind;
    int64_t size = 1;
  };
  std::vector<Axis> axes;

  int64_t size() const;
  /// The index of an axis; fails on an unknown name.
  int axis(const std::string &name) const;
  std::vector<int64_t> coordinates(int64_t rank) const;
  /// The linear index over `over` (axis indices, major to minor) at `coordinates`, and how many
  /// there are.
  int64_t shardIndex(const std::vector<int> &over, const std::vector<int64_t> &coordinates) const;
  int64_t shards(const std::vector<int> &over) const;
  /// The ranks that differ from `rank` only on `over`, by ascending shard index.
  std::vector<int> group(int64_t rank, const std::vector<int> &over) const;
  /// The axis along which the layers are cut into stages; -1: none.
  int pipelineAxis() const;
  int64_t pipelineSize() const;
  /// Where a rank stands on that axis; 0 where there is none.
  int64_t pipelineCoordinate(const std::vector<int64_t> &coordinates) const;
  /// The ranks that have one of the pipeline coordinates `over` (in that order) and are as `rank`
  /// on all other axes.
  std::vector<int> acrossPipeline(int64_t rank, const std::vector<int64_t> &over) const;
  /// "dp=2,tp=2"
  std::string text() const;
};

/// The layout of one tensor over the mesh. A dim is a row-major product of factors; a factor of
/// size n split over k shards has c = ceil(n / k) places on each, or as many more as it says, and
/// shard r holds [r c, min((r + 1) c, n)).
struct Placement {
  struct Factor {
    int64_t size = 1;
    std::vector<int> axes;
    int64_t given = 0; ///< places of a shard, where they are not as few as can be
    int64_t places(const Mesh &mesh) const;
    bool operator==(const Factor &) const = default;
  };
  std::vector<int64_t> shape, local;
  std::vector<std::vector<Factor>> factors; ///< per dim, major to minor
  std::vector<int> partial;                 ///< axes over which the true value is the sum
  bool operator==(const Placement &) const = default;

  int64_t count() const;
  int64_t localCount() const;

  /// The global index along `dim` of place `local` for the rank at `coordinates`; -1 for padding.
  int64_t globalIndex(const Mesh &mesh, const std::vector<int64_t> &coordinates, unsigned dim,
                      int64_t local) const;
  /// All of a dim: one entry per local place.
  std::vector<int64_t> globalIndices(const Mesh &mesh, const std::vector<int64_t> &coordinates,
                                     unsigned dim) const;
  /// Whether this rank is the one that writes its part to files: coordinate 0 on every axis that
  /// neither splits the tensor nor makes it partial, and `stage` on the pipeline's.
  bool isOwner(const Mesh &mesh, const std::vector<int64_t> &coordinates, int64_t stage = 0) const;
  /// Local sizes that follow from the factors; `local` must equal them.
  std::vector<int64_t> computeLocal(const Mesh &mesh) const;
  /// A tensor that every rank holds whole.
  static Placement whole(std::vector<int64_t> shape);
};

/// Calls copy(localOffset, globalOffset, count) for every run of elements that is contiguous in
/// both the local and the global row-major tensor; padding is left out.
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
  // Trailing dims that are whole join the run of the dim before them.
  size_t last = rank - 1;
  while (last > 0 && placement.local[last] == placement.shape[last] && [&] {
    for (int64_t i = 0; i < placement.local[last]; ++i)
      if (index[last][i] != i)
        return false;
    return true;
  }())
    --last;
  int64_t unit = localStride[last];
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
        copy(localBase + i * unit, globalBase + row[i] * unit, (j - i) * unit);
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
