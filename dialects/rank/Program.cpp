// Verifies programs, their inputs and outputs.
#include "dialects/rank/Rank.h"
#include "shared/Counts.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::rank;

int64_t rank::getPipelineSize(Operation *op) {
  if (ps::MeshOp mesh = ps::getMesh(op))
    for (StringAttr axis : mesh.getAxesOfKind(ps::AxisKind::Pipeline))
      return mesh.getAxisSize(axis);
  return 1;
}

LogicalResult ProgramOp::verify() {
  int64_t coordinates = getPipelineSize(*this);
  int64_t pp = getPp();
  if (pp < 0 || pp >= coordinates)
    return emitOpError("(program_c1) pipeline coordinate is ")
           << pp << ", but the mesh has " << coordinates << " pipeline coordinates";
  return success();
}

/// Verifies that `local` is the type of a rank's shard of a tensor of type `global` under
/// `sharding`.
static LogicalResult verifyPart(Operation *op, StringRef label, Type local,
                                std::optional<Type> global, ps::ShardingAttr sharding) {
  if (!global)
    return success();
  auto type = dyn_cast<RankedTensorType>(*global);
  ps::MeshOp mesh = ps::getMesh(op);
  if (!type)
    return op->emitOpError() << "(" << label << ") global type is not a tensor";
  if (sharding && int64_t(sharding.getDims().size()) != type.getRank())
    return op->emitOpError() << "(" << label << ") sharding has "
                             << describeCount(sharding.getDims().size(), "dim")
                             << ", the global type has " << type.getRank();
  RankedTensorType expected = sharding && mesh ? ps::getLocalType(type, sharding, mesh) : type;
  if (expected != local)
    return op->emitOpError() << "(" << label << ") type is " << local
                             << ", but the global type and sharding give " << expected;
  return success();
}

LogicalResult InputOp::verify() {
  return verifyPart(*this, "input_c1", getType(), getGlobal(), getShardingAttr());
}

LogicalResult OutputOp::verify() {
  return verifyPart(*this, "output_c1", getValue().getType(), getGlobal(), getShardingAttr());
}
