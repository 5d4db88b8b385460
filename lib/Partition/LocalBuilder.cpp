// Builds shard indices, global indices and padding of local tensors.
#include "lib/Partition/LocalBuilder.h"
#include "lib/IR/Collectives.h"
#include "lib/Sharding/Reasons.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;
using namespace parashard::sharding;

namespace parashard::partition {

LocalBuilder::LocalBuilder(const MeshShape &mesh, Block *block)
    : PartitionBuilder(mesh.getContext()), mesh(mesh) {
  setListener(this);
  setInsertionPointToEnd(block);
}

void LocalBuilder::serve(Operation *newOp, const OpSharding *newSharding) {
  op = newOp;
  sharding = newSharding;
  subject.clear();
}

void LocalBuilder::setReshardCause(const Twine &newSubject, const Twine &newReason) {
  subject = newSubject.str();
  reason = newReason.str();
}

void LocalBuilder::notifyOperationInserted(Operation *inserted, InsertPoint) {
  // A clone already has the marks.
  if (inserted->getDiscardableAttrDictionary() != op->getDiscardableAttrDictionary())
    copyMarks(op, inserted);
  inserted->removeAttr(kShardingsMark);
  inserted->removeAttr(kReasonMark);
  if (!isCollective(inserted))
    return;
  if (subject.empty())
    setReshardCause("inside " + op->getName().getStringRef(), "partial results are combined");
  setCause(inserted, subject, reason);
}

RankedTensorType LocalBuilder::getOperandType(unsigned i) const {
  return cast<RankedTensorType>(op->getOperand(i).getType());
}

RankedTensorType LocalBuilder::getResultType(unsigned i) const {
  return cast<RankedTensorType>(op->getResult(i).getType());
}

int64_t LocalBuilder::getShards(ArrayRef<StringAttr> axes) const { return mesh.getShards(axes); }

int64_t LocalBuilder::getShardSize(int64_t size, ArrayRef<StringAttr> axes) const {
  return mesh.getShardSize(size, axes);
}

ArrayAttr LocalBuilder::getDeviceAxes(ArrayRef<StringAttr> axes) const {
  SmallVector<StringAttr> names = mesh.getDeviceAxes(axes);
  return ArrayAttr::get(mesh.getContext(), SmallVector<Attribute>(names.begin(), names.end()));
}

//===----------------------------------------------------------------------===//
// Builders of single ops
//===----------------------------------------------------------------------===//

Value LocalBuilder::constant(RankedTensorType type, double value) {
  return make<ConstantOp>(type, value);
}

Value LocalBuilder::broadcast(Value value, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  return make<BroadcastOp>(type.clone(shape), value, getDenseI64ArrayAttr(dims));
}

Value LocalBuilder::reshape(Value value, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  return make<ReshapeOp>(type.clone(shape), value);
}

Value LocalBuilder::getShardIndex(ArrayRef<StringAttr> axes) {
  auto type = RankedTensorType::get({}, getI64Type());
  if (mesh.getShards(axes) == 1)
    return constant(type, 0);
  return make<ShardIndexOp>(type, getDeviceAxes(axes));
}

Value LocalBuilder::allReduce(Value value, ReductionKind kind, ArrayRef<StringAttr> axes) {
  if (mesh.getShards(axes) == 1)
    return value;
  return make<AllReduceOp>(value.getType(), kind, value, getDeviceAxes(axes));
}

//===----------------------------------------------------------------------===//
// Indices and padding
//===----------------------------------------------------------------------===//

/// Returns the size of each factor of a dim on one rank.
static SmallVector<int64_t> getLocalSizes(const Split &split, const MeshShape &mesh) {
  SmallVector<int64_t> sizes;
  for (const SubFactor &factor : split)
    sizes.push_back(mesh.getShardSize(factor.size, factor.axes));
  return sizes;
}

Value LocalBuilder::getFactorIndices(const Split &split, unsigned n) {
  SmallVector<int64_t> sizes = getLocalSizes(split, mesh);
  auto type = RankedTensorType::get({sizes[n]}, getI64Type());
  Value index = make<IotaOp>(type, getI64IntegerAttr(0));
  if (mesh.getShards(split[n].axes) > 1) {
    Value shard = getShardIndex(split[n].axes);
    Value first =
        make<MulOp>(shard, constant(cast<RankedTensorType>(shard.getType()), double(sizes[n])));
    index = make<AddOp>(index, broadcast(first, sizes[n], {}));
  }
  index = broadcast(index, sizes, int64_t(n));
  return reshape(index, getLocalSize(split, mesh));
}

Value LocalBuilder::getValid(const Split &split) {
  Value valid;
  for (auto [n, factor] : llvm::enumerate(split)) {
    if (mesh.isEven(factor.size, factor.axes))
      continue;
    Value index = getFactorIndices(split, n);
    auto type = cast<RankedTensorType>(index.getType());
    Value inside = make<CompareOp>(type.clone(getI1Type()), Predicate::Lt, index,
                                   constant(type, double(factor.size)));
    valid = valid ? make<AndOp>(valid, inside) : inside;
  }
  return valid;
}

Value LocalBuilder::getGlobalIndices(RankedTensorType global, ShardingAttr sharding, unsigned dim) {
  Split split = getSplits(sharding, global.getShape(), mesh)[dim];
  Value sum;
  int64_t stride = global.getDimSize(dim);
  for (auto [n, factor] : llvm::enumerate(split)) {
    stride /= factor.size;
    Value index = getFactorIndices(split, n);
    auto type = cast<RankedTensorType>(index.getType());
    if (stride != 1)
      index = make<MulOp>(index, constant(type, double(stride)));
    sum = sum ? make<AddOp>(sum, index) : index;
  }
  // With one factor, the index of a padding element is past the end of the dim. With several
  // factors, this index would equal the index of a real element. It is therefore replaced by the
  // size of the dim.
  Value valid = split.size() > 1 ? getValid(split) : Value();
  if (!valid)
    return sum;
  auto type = cast<RankedTensorType>(sum.getType());
  return make<SelectOp>(type, valid, sum, constant(type, double(global.getDimSize(dim))));
}

/// Returns true for arguments and reads of variables, because their padding is always zero.
static bool hasZeroPadding(Value value) {
  return isa<BlockArgument>(value) || value.getDefiningOp<ReadOp>();
}

Value LocalBuilder::selectPadding(Value local, RankedTensorType global, ShardingAttr sharding,
                                  unsigned dim, double identity) {
  if (identity == 0 && isZeroPadded(local, dim))
    return local;
  Value valid = getValid(getSplits(sharding, global.getShape(), mesh)[dim]);
  if (!valid)
    return local;
  auto type = cast<RankedTensorType>(local.getType());
  Value everywhere = broadcast(valid, type.getShape(), int64_t(dim));
  return make<SelectOp>(type, everywhere, local, constant(type, identity));
}

/// Returns the dim whose label is `label`, or -1. `labels` has one label per dim of an operand of a
/// contraction.
static int64_t findLabel(ArrayRef<int64_t> labels, int64_t label) {
  const int64_t *found = llvm::find(labels, label);
  return found == labels.end() ? -1 : found - labels.begin();
}

bool LocalBuilder::isZeroPadded(Value local, unsigned dim) const {
  if (hasZeroPadding(local) || zeroPadded.contains({local, dim}))
    return true;
  if (auto convert = local.getDefiningOp<ConvertOp>())
    return isZeroPadded(convert.getOperand(), dim);
  auto contract = local.getDefiningOp<ContractOp>();
  if (!contract || contract.getBias())
    return false;
  int64_t label = contract.getResultLabels()[dim];
  int64_t ofLhs = findLabel(contract.getLhsLabels(), label),
          ofRhs = findLabel(contract.getRhsLabels(), label);
  return (ofLhs >= 0 && isZeroPadded(contract.getLhs(), ofLhs)) ||
         (ofRhs >= 0 && isZeroPadded(contract.getRhs(), ofRhs));
}

bool LocalBuilder::isZeroPadded(Value local) const {
  return llvm::any_of(
      llvm::seq<unsigned>(0, cast<RankedTensorType>(local.getType()).getRank()),
      [&](unsigned dim) { return !hasZeroPadding(local) && isZeroPadded(local, dim); });
}

bool LocalBuilder::hasPadding(RankedTensorType global, RankedTensorType local,
                              ShardingAttr sharding) const {
  int64_t elements = local.getNumElements(); // after the loop: of all shards, with padding
  for (DimAttr dim : sharding.getDims())
    for (FactorAttr factor : dim.getFactors())
      elements *= mesh.getShards(factor.getAxes());
  return elements != global.getNumElements();
}

Value LocalBuilder::zeroPadding(Value local, RankedTensorType global, ShardingAttr sharding) {
  for (int64_t dim = 0; dim < global.getRank(); ++dim)
    local = selectPadding(local, global, sharding, dim, 0.0);
  return local;
}

} // namespace parashard::partition
