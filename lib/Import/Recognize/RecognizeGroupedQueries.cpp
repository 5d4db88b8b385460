// Replaces repeated key and value heads by grouped-query attention.
#include "lib/Import/Recognize/Matching.h"
#include "parashard/Import.h"

using namespace mlir;

namespace parashard::import {
namespace recognize {
namespace {

/// If `heads` [B, G * R, S, D] repeats each head of a value [B, G, S, D] R times, returns this
/// value. Returns null for other values.
Value getGroups(Value heads) {
  auto merge = heads.getDefiningOp<ps::ReshapeOp>();
  auto repeat = merge ? merge.getOperand().getDefiningOp<ps::BroadcastOp>() : ps::BroadcastOp();
  if (!repeat)
    return {};
  ArrayRef<int64_t> full = getShape(repeat.getResult()), merged = getShape(heads);
  if (full.size() != 5 || full[1] * full[2] != merged[1] || full[0] != merged[0] ||
      full[3] != merged[2] || full[4] != merged[3])
    return {};
  // The broadcast must only repeat dim 2 (R): its operand has all other dims.
  SmallVector<int64_t> dims(repeat.getDims());
  for (int64_t dim : dims)
    if (dim == 2)
      return {};
  for (int64_t dim : {0, 1, 3, 4})
    if (!llvm::is_contained(dims, dim) && full[dim] != 1)
      return {};
  Value source = repeat.getOperand();
  SmallVector<int64_t> groups{full[0], full[1], full[3], full[4]};
  if (auto reshape = source.getDefiningOp<ps::ReshapeOp>())
    if (getShape(reshape.getOperand()) == ArrayRef(groups))
      return reshape.getOperand();
  if (getShape(source) == ArrayRef(groups))
    return source;
  OpBuilder b(repeat);
  return ps::ReshapeOp::create(b, repeat.getLoc(), getType(source).clone(groups), source);
}

} // namespace
} // namespace recognize

int64_t recognizeGroupedQueries(ModuleOp module) {
  int64_t count = 0;
  module.walk([&](ps::AttentionOp attention) {
    Operation *oldKey = attention.getKey().getDefiningOp(),
              *oldValue = attention.getValue().getDefiningOp();
    Value key = recognize::getGroups(attention.getKey());
    Value value = key ? recognize::getGroups(attention.getValue()) : Value();
    if (!value || recognize::getShape(key)[1] != recognize::getShape(value)[1])
      return;
    attention.getKeyMutable().assign(key);
    attention.getValueMutable().assign(value);
    recognize::eraseDead(oldKey);
    if (oldValue != oldKey)
      recognize::eraseDead(oldValue);
    ++count;
  });
  return count;
}

} // namespace parashard::import
