// Verifies the collectives.
#include "dialects/ps/Ps.h"
#include "shared/Counts.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace parashard::ps;

/// Verifies collective_c1: the axes are distinct axes of the mesh. Returns the number of shards, or
/// -1 if the module has no mesh.
static FailureOr<int64_t> verifyAxes(Operation *op, ArrayAttr axes) {
  llvm::StringSet<> seen;
  MeshOp mesh = getMesh(op);
  int64_t shards = 1;
  for (Attribute attr : axes) {
    StringRef axis = cast<StringAttr>(attr).getValue();
    if (!seen.insert(axis).second)
      return op->emitOpError() << "lists the axis \"" << axis << "\" twice (collective_c1)";
    if (!mesh)
      continue;
    int64_t size = mesh.getAxisSize(axis);
    if (size == 0) {
      auto error = op->emitOpError()
                   << "has the axis \"" << axis << "\", which the mesh lacks (collective_c1)";
      error.attachNote(mesh.getLoc()) << "mesh declared here";
      return error;
    }
    shards *= size;
  }
  if (!mesh)
    return -1;
  return shards;
}

static LogicalResult verifyDim(Operation *op, Value value, int64_t dim, StringRef label) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  if (dim >= 0 && dim < rank)
    return success();
  return op->emitOpError() << "dim " << dim << " is out of range for a tensor with "
                           << parashard::describeCount(rank, "dim") << " (" << label << ")";
}

/// Verifies that `whole` has the shape of `part`, except that dim `dim` of `whole` is `shards`
/// times as large. Does not compare the shapes if `shards` is -1.
static LogicalResult verifyShards(Operation *op, Value whole, Value part, int64_t dim,
                                  int64_t shards, StringRef label) {
  auto wholeType = cast<RankedTensorType>(whole.getType());
  auto partType = cast<RankedTensorType>(part.getType());
  if (failed(verifyDim(op, whole, dim, label)))
    return failure();
  SmallVector<int64_t> expected(partType.getShape());
  if (dim < partType.getRank() && shards > 0)
    expected[dim] *= shards;
  if (shards < 0 || ArrayRef(expected) == wholeType.getShape())
    return success();
  return op->emitOpError() << wholeType << " does not consist of " << shards << " parts of "
                           << partType << " along dim " << dim << " (" << label << ")";
}

LogicalResult AllReduceOp::verify() { return verifyAxes(*this, getAxes()); }

LogicalResult ReduceScatterOp::verify() {
  FailureOr<int64_t> shards = verifyAxes(*this, getAxes());
  if (failed(shards))
    return failure();
  return verifyShards(*this, getOperand(), getResult(), getDim(), *shards, "reduce_scatter_c1");
}

LogicalResult AllGatherOp::verify() {
  FailureOr<int64_t> shards = verifyAxes(*this, getAxes());
  if (failed(shards))
    return failure();
  return verifyShards(*this, getResult(), getOperand(), getDim(), *shards, "all_gather_c1");
}

LogicalResult AllToAllOp::verify() {
  FailureOr<int64_t> shards = verifyAxes(*this, getAxes());
  if (failed(shards) || failed(verifyDim(*this, getOperand(), getSplit(), "all_to_all_c1")) ||
      failed(verifyDim(*this, getOperand(), getConcat(), "all_to_all_c1")))
    return failure();
  auto type = cast<RankedTensorType>(getOperand().getType());
  if (*shards > 0 && type.getDimSize(getSplit()) % *shards)
    return emitOpError()
           << "splits dim " << getSplit() << " of " << type << " over " << *shards
           << " shards, but the size of the dim is not divisible by this number (all_to_all_c1)";
  if (*shards < 0)
    return success();
  SmallVector<int64_t> expected(type.getShape());
  expected[getSplit()] /= *shards;
  expected[getConcat()] *= *shards;
  if (type.clone(expected) != getType())
    return emitOpError() << "has type " << getType() << ", expected " << type.clone(expected)
                         << " (all_to_all_c2)";
  return success();
}

LogicalResult PermuteOp::verify() {
  FailureOr<int64_t> shards = verifyAxes(*this, getAxes());
  if (failed(shards))
    return failure();
  SmallVector<int64_t> targets(getTargets());
  llvm::sort(targets);
  for (auto [i, target] : llvm::enumerate(targets))
    if (target != int64_t(i))
      return emitOpError("targets are not a permutation of the members (permute_c1)");
  if (*shards >= 0 && int64_t(targets.size()) != *shards)
    return emitOpError() << "has " << targets.size() << " targets for " << *shards
                         << " members (permute_c1)";
  return success();
}

LogicalResult ShardIndexOp::verify() { return verifyAxes(*this, getAxes()); }

LogicalResult ShardSliceOp::verify() {
  FailureOr<int64_t> shards = verifyAxes(*this, getAxes());
  if (failed(shards) || failed(verifyDim(*this, getOperand(), getDim(), "shard_slice_c1")))
    return failure();
  if (*shards < 0)
    return success();
  auto type = cast<RankedTensorType>(getOperand().getType());
  auto result = cast<RankedTensorType>(getType());
  SmallVector<int64_t> expected(type.getShape());
  if (result.getRank() == type.getRank())
    expected[getDim()] = result.getDimSize(getDim());
  if (type.clone(expected) == result && expected[getDim()] * *shards >= type.getDimSize(getDim()))
    return success();
  return emitOpError() << "gives " << *shards << " shards of " << result << " along dim "
                       << getDim() << " of " << type
                       << ", which do not cover the dim (shard_slice_c2)";
}

LogicalResult WaitOp::verify() {
  Operation *started = getOperand().getDefiningOp();
  if (!started || !isa<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp, PermuteOp>(started)) {
    InFlightDiagnostic error = emitOpError("operand is not the result of a collective (wait_c1)");
    error.attachNote(getOperand().getLoc()) << "defined here";
    return error;
  }
  if (!getOperand().hasOneUse()) {
    InFlightDiagnostic error = emitOpError("operand has other uses (wait_c2)");
    error.attachNote(started->getLoc()) << "started here";
    return error;
  }
  return success();
}

LoweringKind AllReduceOp::getLoweringKind() { return LoweringKind::Collective; }
LoweringKind ReduceScatterOp::getLoweringKind() { return LoweringKind::Collective; }
LoweringKind AllGatherOp::getLoweringKind() { return LoweringKind::Collective; }
LoweringKind AllToAllOp::getLoweringKind() { return LoweringKind::Collective; }
LoweringKind PermuteOp::getLoweringKind() { return LoweringKind::Collective; }
LoweringKind ShardIndexOp::getLoweringKind() { return LoweringKind::Collective; }
LoweringKind ShardSliceOp::getLoweringKind() { return LoweringKind::Collective; }
LoweringKind WaitOp::getLoweringKind() { return LoweringKind::Collective; }
