// Converts ops that create tensors from numbers: full, zeros, arange, triangles.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

LogicalResult convertFull(NodeConverter &n) {
  const char *name = n.find("fill_value") ? "fill_value" : n.find("value") ? "value" : "s";
  double value = n.scalar(name).value;
  RankedTensorType type = n.getResultType();
  n.markTypeOnly({"self", "size"});
  return n.failed() ? failure() : n.set(n.splat(type, value));
}

/// Converts fill(self, value) where `value` is a tensor without dims.
LogicalResult convertFillTensor(NodeConverter &n) {
  n.markTypeOnly({"self"});
  RankedTensorType type = n.getResultType();
  Value value = n.convert(n.tensor("value"), type.getElementType());
  value = n.failed() ? value : n.broadcast(value, type.getShape());
  return n.failed() ? failure() : n.set(value);
}

template <int kValue> LogicalResult convertSplat(NodeConverter &n) {
  n.markTypeOnly({"self", "size"});
  RankedTensorType type = n.getResultType();
  return n.failed() ? failure() : n.set(n.splat(type, kValue));
}

/// Builds start + step * index. As in PyTorch, computes in i64, or in f64 for floats.
LogicalResult convertArange(NodeConverter &n) {
  n.markTypeOnly({"end"});
  double start = n.number("start", 0), step = n.number("step", 1);
  RankedTensorType type = n.getResultType();
  if (n.failed())
    return failure();
  if (type.getRank() != 1)
    return n.fail("returns " + debugString(type) + "; expected 1 dim");
  Type wide = isa<FloatType>(type.getElementType()) ? Type(n.b.getF64Type()) : n.i64();
  RankedTensorType wideType = type.clone(wide);
  Value value = n.make<ps::IotaOp>(wideType, 0);
  if (step != 1)
    value = n.make<ps::MulOp>(value, n.splat(wideType, step));
  if (start != 0)
    value = n.make<ps::AddOp>(value, n.splat(wideType, start));
  return n.set(value);
}

/// Keeps the elements with column - row <= diagonal (tril) or >= diagonal (triu).
template <ps::Predicate kPredicate> LogicalResult convertTriangle(NodeConverter &n) {
  Value x = n.tensor("self");
  int64_t diagonal = n.integer("diagonal", 0);
  return n.failed() ? failure() : n.set(buildTriangle(n, x, diagonal, kPredicate));
}

} // namespace

void addCreationConverters(ConverterTable &table) {
  table["aten.full"] = convertFull;
  table["aten.full_like"] = convertFull;
  table["aten.new_full"] = convertFull;
  table["aten.fill"] = convertFull;
  table["aten.fill.Tensor"] = convertFillTensor;
  table["aten.scalar_tensor"] = convertFull;
  for (const char *name : {"aten.empty", "aten.empty_like", "aten.new_empty"})
    table[name] = convertSplat<0>; // the content is undefined
  table["aten.zeros"] = convertSplat<0>;
  table["aten.zeros_like"] = convertSplat<0>;
  table["aten.new_zeros"] = convertSplat<0>;
  table["aten.zero"] = convertSplat<0>;
  table["aten.ones"] = convertSplat<1>;
  table["aten.ones_like"] = convertSplat<1>;
  table["aten.new_ones"] = convertSplat<1>;
  table["aten.arange"] = convertArange;
  table["aten.tril"] = convertTriangle<ps::Predicate::Le>;
  table["aten.triu"] = convertTriangle<ps::Predicate::Ge>;
}

} // namespace parashard::import
