// Implements discardable attributes ("marks"), and queries of shardings, meshes and local types.
#include "dialects/ps/MarkListener.h"
#include "dialects/ps/Ps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace parashard::ps;

void parashard::ps::copyMarks(Operation *from, Operation *to) {
  NamedAttrList marks(to->getDiscardableAttrDictionary());
  bool changes = false;
  for (StringRef mark : {StringRef(kPhaseMark), StringRef(kSegmentMark), StringRef(kOriginMark),
                         StringRef(kRecomputedMark)})
    if (Attribute value = from->getDiscardableAttr(mark))
      changes |= marks.set(mark, value) != value;
  if (changes)
    to->setDiscardableAttrs(marks.getDictionary(to->getContext()));
}

ShardingAttr parashard::ps::getSharding(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    auto all = result.getOwner()->getAttrOfType<ArrayAttr>(kShardingsMark);
    if (!all || result.getResultNumber() >= all.size())
      return {};
    return dyn_cast<ShardingAttr>(all[result.getResultNumber()]);
  }
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function || argument.getOwner() != &function.getFunctionBody().front())
    return {};
  return function.getArgAttrOfType<ShardingAttr>(argument.getArgNumber(), kShardingMark);
}

void parashard::ps::setSharding(Value value, ShardingAttr sharding) {
  MLIRContext *context = value.getContext();
  if (auto result = dyn_cast<OpResult>(value)) {
    Operation *op = result.getOwner();
    SmallVector<Attribute> all(op->getNumResults(), UnitAttr::get(context));
    if (auto before = op->getAttrOfType<ArrayAttr>(kShardingsMark))
      llvm::copy(before, all.begin());
    all[result.getResultNumber()] = sharding;
    op->setAttr(kShardingsMark, ArrayAttr::get(context, all));
    return;
  }
  auto argument = cast<BlockArgument>(value);
  if (auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp()))
    function.setArgAttr(argument.getArgNumber(), kShardingMark, sharding);
}

MeshOp parashard::ps::getMesh(Operation *anywhere) {
  auto module = dyn_cast<ModuleOp>(anywhere);
  if (!module)
    module = anywhere->getParentOfType<ModuleOp>();
  if (!module)
    return {};
  auto meshes = module.getOps<MeshOp>();
  return meshes.empty() ? MeshOp() : *meshes.begin();
}

RankedTensorType parashard::ps::getLocalType(RankedTensorType global, ShardingAttr sharding,
                                             MeshOp mesh) {
  if (!sharding ||
      int64_t(sharding.getDims().size()) != global.getRank()) // the verifier reports the error
    return global;
  SmallVector<int64_t> shape;
  for (auto [size, dim] : llvm::zip_equal(global.getShape(), sharding.getDims())) {
    int64_t local = 1;
    for (FactorAttr factor : dim.getFactors()) {
      if (!llvm::all_of(factor.getAxes(), [&](StringAttr axis) { return mesh.getAxisSize(axis); }))
        return global; // the mesh lacks an axis: verifyModule reports the error
      int64_t whole = factor.getSize() ? factor.getSize() : size;
      local *= mesh.getShardSize(whole, factor.getAxes());
    }
    shape.push_back(local);
  }
  return RankedTensorType::get(shape, global.getElementType());
}

//===----------------------------------------------------------------------===//
// MarkListener
//===----------------------------------------------------------------------===//

/// Copies shardings from results of `from` to results of `to` that have the same type and no
/// sharding.
static void copyShardings(Operation *from, Operation *to) {
  if (!from->hasAttr(kShardingsMark))
    return;
  for (OpResult value : to->getResults()) {
    if (getSharding(value))
      continue;
    for (OpResult old : from->getResults())
      if (old.getType() == value.getType() && getSharding(old)) {
        setSharding(value, getSharding(old));
        break;
      }
  }
}

void MarkListener::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint previous) {
  if (!previous.isSet() && !op->hasAttr(kPhaseMark))
    created.push_back(op);
}

void MarkListener::notifyOperationReplaced(Operation *op, ValueRange) {
  for (Operation *replacement : created) {
    copyMarks(op, replacement);
    copyShardings(op, replacement);
  }
  created.clear();
}

void MarkListener::notifyOperationErased(Operation *op) { llvm::erase(created, op); }

//===----------------------------------------------------------------------===//
// The table of marks
//===----------------------------------------------------------------------===//

llvm::ArrayRef<MarkInfo> parashard::ps::getMarks() {
  static constexpr MarkInfo marks[] = {
#define PS_MARK(NAME, TEXT, CHECK, ON, TYPE, SET_BY) {TEXT, MarkCheck::CHECK, ON, TYPE, SET_BY},
#include "dialects/ps/Marks.def"
  };
  return marks;
}

const MarkInfo *parashard::ps::findMark(StringRef name) {
  const MarkInfo *mark =
      llvm::find_if(getMarks(), [&](const MarkInfo &info) { return info.name == name; });
  return mark == getMarks().end() ? nullptr : mark;
}
