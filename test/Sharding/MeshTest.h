// Holds a mesh for unit tests, and describes splits by the elements that each rank has.
#ifndef PARASHARD_TEST_SHARDING_MESHTEST_H
#define PARASHARD_TEST_SHARDING_MESHTEST_H

#include "lib/Sharding/Split.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

namespace parashard::sharding {

/// A mesh such as `"dp" = 2 : data, "tp" = 3 : tensor`, with its context.
class TestMesh {
public:
  explicit TestMesh(const std::string &axes) {
    context.loadDialect<ps::PSDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>("ps.mesh @mesh <" + axes + ">", &context);
    shape = MeshShape(*module->getOps<ps::MeshOp>().begin());
  }

  mlir::StringAttr axis(llvm::StringRef name) { return mlir::StringAttr::get(&context, name); }
  llvm::SmallVector<mlir::StringAttr, 2> axes(llvm::ArrayRef<llvm::StringRef> names) {
    llvm::SmallVector<mlir::StringAttr, 2> all;
    for (llvm::StringRef name : names)
      all.push_back(axis(name));
    return all;
  }
  SubFactor factor(int64_t size, llvm::ArrayRef<llvm::StringRef> names = {}) {
    return {size, axes(names)};
  }

  int64_t getRankCount() const {
    int64_t ranks = 1;
    for (ps::AxisAttr axis : shape.getAxes())
      ranks *= axis.getDevices();
    return ranks;
  }
  /// Returns the coordinate of a rank along an axis. The last axis of the mesh varies fastest.
  int64_t getCoordinate(int64_t rank, mlir::StringAttr axis) const {
    for (ps::AxisAttr a : llvm::reverse(shape.getAxes())) {
      if (a.getName() == axis)
        return rank % a.getDevices();
      rank /= a.getDevices();
    }
    return 0;
  }
  /// Returns the index of a rank's shard over `axes`, major to minor.
  int64_t getShardIndex(int64_t rank, llvm::ArrayRef<mlir::StringAttr> axes) const {
    int64_t index = 0;
    for (mlir::StringAttr axis : axes)
      index = index * shape.getSize(axis) + getCoordinate(rank, axis);
    return index;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  MeshShape shape;
};

/// Returns the global index of each local element of a rank, from the definition of
/// `#ps.sharding`; -1 for padding. Example: 5 elements over tp=2 give {0, 1, 2} and {3, 4, -1}.
inline std::vector<int64_t> getElements(const Split &split, const TestMesh &mesh, int64_t rank) {
  std::vector<int64_t> elements = {0};
  for (const SubFactor &factor : split) {
    int64_t count = mesh.shape.getShardSize(factor.size, factor.axes);
    int64_t first = count * mesh.getShardIndex(rank, mesh.shape.getDeviceAxes(factor.axes));
    std::vector<int64_t> finer;
    for (int64_t major : elements)
      for (int64_t i = first; i < first + count; ++i)
        finer.push_back(major < 0 || i >= factor.size ? -1 : major * factor.size + i);
    elements = std::move(finer);
  }
  return elements;
}

/// Prints a split, such as `4 {dp} x 16`.
inline std::string print(const Split &split) {
  std::string text;
  for (const SubFactor &factor : split) {
    text += (text.empty() ? "" : " x ") + std::to_string(factor.size);
    for (size_t i = 0; i < factor.axes.size(); ++i)
      text += (i ? ", " : " {") + factor.axes[i].str();
    text += factor.axes.empty() ? "" : "}";
  }
  return text;
}

/// Prints the splits of all dims, such as `[8 {dp}, 4]`.
inline std::string print(llvm::ArrayRef<Split> splits) {
  std::string text;
  for (const Split &split : splits)
    text += (text.empty() ? "[" : ", ") + print(split);
  return text.empty() ? "[]" : text + "]";
}

/// Returns all splits of `size` elements into one or two factors, over no axes, any axis, or both
/// axes in either order. Includes splits that are not simplified.
inline std::vector<Split> getAllSplits(TestMesh &mesh, int64_t size,
                                       llvm::ArrayRef<llvm::StringRef> axes) {
  std::vector<std::vector<llvm::StringRef>> lists = {{}};
  lists.reserve(1 + axes.size() * axes.size());
  for (llvm::StringRef axis : axes)
    lists.push_back({axis});
  for (llvm::StringRef a : axes)
    for (llvm::StringRef b : axes)
      if (a != b)
        lists.push_back({a, b});
  std::vector<Split> splits;
  splits.reserve(lists.size());
  for (const auto &list : lists)
    splits.push_back({mesh.factor(size, list)});
  for (int64_t major = 2; major < size; ++major)
    for (const auto &a : lists)
      for (const auto &b : lists)
        if (size % major == 0 && a.size() + b.size() <= axes.size() &&
            llvm::none_of(a, [&](llvm::StringRef axis) { return llvm::is_contained(b, axis); }))
          splits.push_back({mesh.factor(major, a), mesh.factor(size / major, b)});
  return splits;
}

} // namespace parashard::sharding

#endif
