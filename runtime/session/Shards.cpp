// Computes the index ranges of each rank, and chooses the rank that writes each shard.
#include "runtime/session/Shards.h"
#include "runtime/core/MemoryPieces.h"
#include <algorithm>
#include <cstring>

namespace psrt {

std::vector<int64_t> shapeOf(const IndexRanges &ranges) {
  std::vector<int64_t> shape;
  for (const std::vector<IndexRange> &dim : ranges) {
    shape.push_back(0);
    for (const IndexRange &range : dim)
      shape.back() += range.end - range.begin;
  }
  return shape;
}

/// Returns the index ranges of a rank's shard. `lower` is the offset of the variable in the tensor
/// (empty: 0).
static IndexRanges findRanges(const Placement &placement, const Mesh &mesh,
                              const std::vector<int64_t> &coordinates,
                              const std::vector<int64_t> &lower) {
  IndexRanges result(placement.shape.size());
  for (size_t d = 0; d < result.size(); ++d)
    for (int64_t index : placement.globalIndices(mesh, coordinates, d)) {
      if (index < 0)
        continue; // padding
      index += lower.empty() ? 0 : lower[d];
      if (result[d].empty() || result[d].back().end != index)
        result[d].push_back({index, index});
      ++result[d].back().end;
    }
  return result;
}

/// Splits the ranks into groups such that each group holds the variable once. Example: with mesh
/// dp=2,tp=2 and a variable split over tp, the groups are {0, 1} and {2, 3}.
static std::vector<std::vector<int>> findReplicas(const Program &program,
                                                  const Variable &variable) {
  const Mesh &mesh = program.mesh;
  std::vector<bool> splits(mesh.axes.size());
  for (const std::vector<Placement::Factor> &dim : variable.placement.factors)
    for (const Placement::Factor &factor : dim)
      for (int axis : factor.axes)
        splits[axis] = true;
  std::map<std::vector<int64_t>, std::vector<int>> replicas; // key: coordinates on the other axes
  for (int rank = 0; rank < int(mesh.size()); ++rank) {
    std::vector<int64_t> key = mesh.coordinates(rank);
    if (!variable.addresses.isAt(mesh.pipelineCoordinate(key)))
      continue;
    for (size_t axis = 0; axis < key.size(); ++axis)
      key[axis] = splits[axis] ? 0 : key[axis];
    replicas[key].push_back(rank);
  }
  std::vector<std::vector<int>> result;
  for (auto &[key, ranks] : replicas)
    result.push_back(std::move(ranks));
  return result;
}

/// Returns whether the variable's value is a sum over ranks.
static bool isSum(const Mesh &mesh, const Variable &variable) {
  return variable.addedAt >= 0 || mesh.shards(variable.placement.partial) > 1;
}

static IndexRanges wholeRanges(const std::vector<int64_t> &shape,
                               const std::vector<int64_t> &lower) {
  IndexRanges result;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t begin = lower.empty() ? 0 : lower[d];
    result.push_back({{begin, begin + shape[d]}});
  }
  return result;
}

std::vector<std::vector<Shard>> planShards(const Program &program,
                                           const std::vector<const NamedTensor *> &tensors) {
  const Mesh &mesh = program.mesh;
  std::vector<std::vector<Shard>> result(mesh.size());
  std::vector<int64_t> bytes(mesh.size());
  for (const NamedTensor *tensor : tensors)
    for (size_t i = 0; i < tensor->parts.size(); ++i) {
      const auto &[index, lower] = tensor->parts[i];
      const Variable &variable = program.variables[index];
      Shard shard{tensor, index, tensor->name, {}, isSum(mesh, variable)};
      if (tensor->parts.size() > 1)
        shard.key += ":" + std::to_string(i);
      if (shard.isCollected) {
        shard.ranges = wholeRanges(variable.placement.shape, lower);
        result.front().push_back(std::move(shard));
        continue;
      }
      std::vector<std::vector<int>> replicas = findReplicas(program, variable);
      for (int rank :
           *std::min_element(replicas.begin(), replicas.end(), [&](const auto &a, const auto &b) {
             return bytes[a[0]] < bytes[b[0]];
           })) {
        shard.ranges = findRanges(variable.placement, mesh, mesh.coordinates(rank), lower);
        bytes[rank] += variable.localBytes();
        std::vector<int64_t> shape = shapeOf(shard.ranges);
        if (std::find(shape.begin(), shape.end(), 0) == shape.end()) // skip shards of padding only
          result[rank].push_back(shard);
      }
    }
  return result;
}

void copyShard(const Program &program, const Rank &rank, const Variable &variable, char *to) {
  int64_t size = dtypeSize(variable.dtype);
  PieceReader reader(*rank.memory, variable.addresses.at(rank.stage), variable.localBytes());
  forEachRun(variable.placement, program.mesh, rank.coordinates,
             [&](int64_t local, int64_t, int64_t count) {
               reader.read(local, count, size, [&](const char *from, int64_t, int64_t n) {
                 std::memcpy(to, from, n * size);
                 to += n * size;
               });
             });
}

} // namespace psrt
