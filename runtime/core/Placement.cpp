// Implements the arithmetic of meshes and placements.
#include "runtime/core/Placement.h"
#include "runtime/core/Status.h"
#include <algorithm>

namespace psrt {

int64_t Mesh::size() const {
  int64_t n = 1;
  for (const Axis &axis : axes)
    n *= axis.size;
  return n;
}

int Mesh::axis(const std::string &name) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name)
      return int(i);
  PSRT_FAIL(BadInput, "the program uses mesh axis \"%s\", but its mesh is %s", name.c_str(),
            text().c_str());
}

std::vector<int64_t> Mesh::coordinates(int64_t rank) const {
  std::vector<int64_t> result(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    result[i] = rank % axes[i].size;
    rank /= axes[i].size;
  }
  return result;
}

int64_t Mesh::shardIndex(const std::vector<int> &over,
                         const std::vector<int64_t> &coordinates) const {
  int64_t index = 0;
  for (int axis : over)
    index = index * axes[axis].size + coordinates[axis];
  return index;
}

int64_t Mesh::shards(const std::vector<int> &over) const {
  int64_t n = 1;
  for (int axis : over)
    n *= axes[axis].size;
  return n;
}

std::vector<int> Mesh::group(int64_t rank, const std::vector<int> &over) const {
  std::vector<int64_t> mine = coordinates(rank);
  std::vector<int> members(shards(over));
  for (int64_t other = 0; other < size(); ++other) {
    std::vector<int64_t> theirs = coordinates(other);
    bool same = true;
    for (size_t i = 0; i < axes.size(); ++i)
      same &= theirs[i] == mine[i] || std::find(over.begin(), over.end(), int(i)) != over.end();
    if (same)
      members[shardIndex(over, theirs)] = int(other);
  }
  return members;
}

int Mesh::pipelineAxis() const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].kind == AxisKind::Pipeline)
      return int(i);
  return -1;
}

int64_t Mesh::pipelineSize() const {
  int axis = pipelineAxis();
  return axis < 0 ? 1 : axes[axis].size;
}

int64_t Mesh::pipelineCoordinate(const std::vector<int64_t> &coordinates) const {
  int axis = pipelineAxis();
  return axis < 0 ? 0 : coordinates[axis];
}

std::vector<int> Mesh::acrossPipeline(int64_t rank, const std::vector<int64_t> &over) const {
  int axis = pipelineAxis();
  std::vector<int> all = axis < 0 ? std::vector<int>{int(rank)} : group(rank, {axis}), result;
  for (int64_t coordinate : over)
    result.push_back(all.at(coordinate));
  return result;
}

std::string Mesh::text() const {
  std::string result;
  for (const Axis &axis : axes)
    result +=
        format("%s%s=%lld", result.empty() ? "" : ",", axis.name.c_str(), (long long)axis.size);
  return result.empty() ? "one device" : result;
}

static int64_t multiply(const std::vector<int64_t> &sizes) {
  int64_t n = 1;
  for (int64_t size : sizes)
    n *= size;
  return n;
}

int64_t Placement::Factor::localSize(const Mesh &mesh) const {
  int64_t shards = mesh.shards(axes);
  return given ? given : (size + shards - 1) / shards;
}

int64_t Placement::count() const { return multiply(shape); }
int64_t Placement::localCount() const { return multiply(local); }

int64_t Placement::globalIndex(const Mesh &mesh, const std::vector<int64_t> &coordinates,
                               unsigned dim, int64_t local) const {
  // Splits the local index into one index per factor, from the minor factor up. Then composes the
  // global index from the full sizes of the factors.
  int64_t global = 0, weight = 1;
  const std::vector<Factor> &list = factors[dim];
  for (size_t i = list.size(); i-- > 0;) {
    const Factor &factor = list[i];
    if (factor.size == 0) // an empty dim has no elements
      return -1;
    int64_t size = factor.localSize(mesh);
    int64_t offset = local % size;
    local /= size;
    int64_t index = mesh.shardIndex(factor.axes, coordinates) * size + offset;
    if (index >= factor.size)
      return -1;
    global += index * weight;
    weight *= factor.size;
  }
  return global;
}

std::vector<int64_t> Placement::globalIndices(const Mesh &mesh,
                                              const std::vector<int64_t> &coordinates,
                                              unsigned dim) const {
  std::vector<int64_t> result(local[dim]);
  for (int64_t i = 0; i < local[dim]; ++i)
    result[i] = globalIndex(mesh, coordinates, dim, i);
  return result;
}

bool Placement::isOwner(const Mesh &mesh, const std::vector<int64_t> &coordinates,
                        int64_t stage) const {
  int pipeline = mesh.pipelineAxis();
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    bool used = std::find(partial.begin(), partial.end(), int(axis)) != partial.end();
    for (const std::vector<Factor> &dim : factors)
      for (const Factor &factor : dim)
        used |= std::find(factor.axes.begin(), factor.axes.end(), int(axis)) != factor.axes.end();
    if (!used && coordinates[axis] != (int(axis) == pipeline ? stage : 0))
      return false;
  }
  return true;
}

std::vector<int64_t> Placement::computeLocal(const Mesh &mesh) const {
  std::vector<int64_t> result;
  for (const std::vector<Factor> &dim : factors) {
    int64_t size = 1;
    for (const Factor &factor : dim)
      size *= factor.localSize(mesh);
    result.push_back(size);
  }
  return result;
}

Placement Placement::whole(std::vector<int64_t> shape) {
  Placement result;
  for (int64_t size : shape)
    result.factors.push_back({Factor{size, {}, 0}});
  result.local = shape;
  result.shape = std::move(shape);
  return result;
}

} // namespace psrt
