// Computes the seconds of ops and collectives on a cluster.
#ifndef PARASHARD_LIB_IR_OPTIMES_H
#define PARASHARD_LIB_IR_OPTIMES_H

#include "dialects/ps/Ps.h"
#include "lib/Costs/CallCost.h"
#include "lib/Costs/CollectiveCost.h"
#include "mlir/IR/BuiltinOps.h"

namespace parashard::ir {

/// Returns true for waits, and for ops that only rearrange, select or repeat elements. The result
/// of such an op needs no buffer: kernels read the op's operand instead.
bool isView(mlir::Operation *op);
/// Returns true for ops that run no code: views, variable accesses, constants and terminators.
bool hasNoKernel(mlir::Operation *op);

/// Returns the cluster of a module (`ps.cluster`), or the default for CPUs if the module has no
/// such attribute. Fails with an error at `module` if the cluster's file cannot be read.
mlir::FailureOr<costs::Cluster> findCluster(mlir::ModuleOp module);

/// Returns a call with the flops of an op's contractions. The call's `bytes` are 0.
costs::Call getContractions(const ps::OpCost &cost, mlir::TypeRange operands);

/// The name and the size of a mesh axis.
struct AxisSize {
  mlir::StringAttr name;
  int64_t size;
};

/// The work of ops with kernels. It depends neither on the cluster nor on the mesh.
using OpCalls = llvm::DenseMap<mlir::Operation *, costs::Call>;

/// Estimates the seconds of ops and collectives. The ops must have the tensor types of one rank
/// (level 3 and later). All ranks have the same rates.
class OpTimes {
public:
  /// Uses the axes of `mesh` for collectives. If `mesh` is null, there is only one rank.
  OpTimes(const costs::Cluster &cluster, ps::MeshOp mesh);
  /// Uses `axes` for collectives. The sizes and the order of the axes may differ from the module's
  /// mesh. The last axis varies fastest. `calls` (may be null) keeps the work of ops for other
  /// objects.
  OpTimes(const costs::Cluster &cluster, llvm::ArrayRef<AxisSize> axes, OpCalls *calls = nullptr)
      : cluster(cluster), axes(axes), calls(calls) {}

  const costs::Cluster &getCluster() const { return cluster; }

  /// Returns the work of an op with a kernel. A fused op has the flops of the contractions in its
  /// body, and the bytes of its own operands and results.
  costs::Call getCall(mlir::Operation *op) const;
  /// Returns the seconds of an op with a kernel, without its launches.
  double getSeconds(mlir::Operation *op) const;

  /// Returns the seconds of one of `count` equal chunks of a collective in a class function. With
  /// `count` = 1, the chunk is the whole collective.
  double getCollectiveSeconds(mlir::Operation *collective, int64_t count = 1) const;
  /// Returns the seconds of a collective over `axes`. For `bytes`, see costs::getSeconds.
  double getCollectiveSeconds(costs::Collective collective, llvm::ArrayRef<mlir::StringAttr> axes,
                              double bytes) const;

  /// Returns the members of a communicator over `axes` of the mesh. The mesh's last axis varies
  /// fastest.
  costs::Group getGroup(llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// Returns the distance between the rank numbers of neighbors along an axis.
  int64_t getStride(mlir::StringAttr axis) const;

private:
  const costs::Cluster &cluster;
  llvm::SmallVector<AxisSize> axes;
  OpCalls *calls = nullptr;
};

/// Returns the total bytes of the tensors in a list of types.
int64_t sumBytes(mlir::TypeRange types);

/// Returns the kind of a collective op in a class function; nullopt for other ops.
std::optional<costs::Collective> findCollective(mlir::Operation *op);

/// Returns the bytes of a collective's operands on one rank, or the bytes of its results, whichever
/// are more.
int64_t getCollectiveBytes(mlir::TypeRange operands, mlir::TypeRange results);

} // namespace parashard::ir

#endif
