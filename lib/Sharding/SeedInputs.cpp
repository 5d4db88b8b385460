// Splits the inputs of a model along their batch.
#include "lib/Sharding/SeedInputs.h"
#include "dialects/ps/Refusal.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "parashard/Training.h"
#include "shared/Counts.h"

using namespace mlir;
using namespace parashard::training;

namespace parashard::sharding {

static LogicalResult seedInput(func::FuncOp function, BlockArgument argument,
                               const MeshShape &mesh) {
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  if (!type || ps::getSharding(argument))
    return success();
  unsigned number = argument.getArgNumber();
  auto named = function.getArgAttrOfType<StringAttr>(number, kNameMark);
  auto marked = function.getArgAttrOfType<IntegerAttr>(number, kBatchDimMark);
  StringRef name = named ? named.getValue() : StringRef();
  int64_t dim = marked ? marked.getInt() : 0;
  TensorSplits splits = getSplits({}, type.getShape(), mesh);
  SmallVector<StringAttr> axes = mesh.getAxes({ps::AxisKind::Data, ps::AxisKind::Expert});
  bool hasBatch = dim != kNoBatch && type.getRank() > 0;
  if (hasBatch && dim >= type.getRank())
    return ps::refuseFlag(function, "batch-dim " + name + "=" + Twine(dim))
           << ": the input has " << describeCount(type.getRank(), "dim");
  if (hasBatch && type.getDimSize(dim) % mesh.getShards(axes) != 0)
    return ps::refuseFlag(function, "mesh")
           << ": input \"" << name << "\" has a batch of " << type.getDimSize(dim) << " (dim "
           << dim << "), which is not divisible by " << mesh.getShards(axes)
           << " data shards; set --batch to a multiple of " << mesh.getShards(axes)
           << ", export the model with such a batch, or pass --batch-dim " << name
           << "=none if dim " << dim << " is not the batch dim";
  if (hasBatch)
    splits[dim] = makeSplit(type.getDimSize(dim), axes);
  ps::setSharding(argument, getShardingAttr(splits, {}, mesh));
  return success();
}

LogicalResult seedInputs(ModuleOp module, const MeshShape &mesh) {
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (failed(seedInput(function, argument, mesh)))
        return failure();
  return success();
}

} // namespace parashard::sharding
