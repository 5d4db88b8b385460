// Converts data movement: views, permutations, slices, concatenation and padding.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Dims.h"
#include "lib/Import/Pt2/Views.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Converts a view. Uses the shape of the result in the export, since this shape has a number where
/// the argument may have -1.
LogicalResult convertView(NodeConverter &n) {
  Value x = n.tensor("self");
  RankedTensorType type = n.getResultType();
  n.markTypeOnly({"size", "shape", "sizes", "other", "dim", "start_dim", "end_dim"});
  if (n.failed())
    return failure();
  if (n.has("dtype"))
    return n.fail("reads the bytes of a tensor as another type (view(dtype)), which is not "
                  "supported; to convert the numbers instead, use .to(dtype)");
  if (getType(x).getNumElements() != type.getNumElements())
    return n.fail(
        "reshapes " + debugString(x.getType()) + " to " + debugString(type) +
        ", which has another number of elements: the shape contains a fixed number instead of a "
        "size that --dim or --batch changes");
  return n.set(n.reshape(x, type.getShape()));
}

LogicalResult convertExpand(NodeConverter &n) {
  Value x = n.tensor("self");
  n.markTypeOnly({"size", "other", "implicit"});
  Value value = n.failed() ? x : n.broadcast(x, n.getResultType().getShape());
  return n.failed() ? failure() : n.set(value);
}

/// Broadcasts all operands to their common shape.
LogicalResult convertBroadcastTensors(NodeConverter &n) {
  SmallVector<Value> values = n.tensors("tensors");
  if (values.size() < n.getNumResults() || llvm::is_contained(values, Value()))
    return n.fail("has fewer operands than results");
  for (unsigned i = 0; i < n.getNumResults() && !n.failed(); ++i)
    if (n.isUsed(i) && failed(n.set(i, n.broadcast(values[i], n.getResultType(i).getShape()))))
      return failure();
  return success(!n.failed());
}

LogicalResult convertTranspose(NodeConverter &n) {
  Value x = n.tensor("self");
  return n.failed() ? failure() : n.set(n.swapDims(x, n.integer("dim0"), n.integer("dim1")));
}

/// Reverses the order of all dims. Returns vectors and scalars unchanged.
LogicalResult convertT(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  return n.set(n.transpose(x, llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, getRank(x))))));
}

LogicalResult convertMatrixTranspose(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  return getRank(x) < 2 ? n.fail("has an operand with fewer than 2 dims")
                        : n.set(n.swapDims(x, -2, -1));
}

LogicalResult convertPermute(NodeConverter &n) {
  Value x = n.tensor("self");
  return n.failed() ? failure() : n.set(n.transpose(x, wrapDims(n.integers("dims"), getRank(x))));
}

/// Converts slice, select, split and similar ops. Removes a dim of size 1 that the result does not
/// have.
LogicalResult convertRanges(NodeConverter &n) {
  Value x = n.tensor("self");
  n.markTypeOnly({"split_size", "split_sizes", "chunks"});
  for (unsigned i = 0; i < n.getNumResults() && !n.failed(); ++i) {
    if (!n.isUsed(i))
      continue;
    ViewRange range = getViewRange(n, i);
    RankedTensorType type = n.getResultType(i);
    if (n.failed())
      break;
    Value part = n.slice(x, range.dim, range.start, range.limit, range.step);
    if (getType(part).getNumElements() == type.getNumElements())
      part = n.reshape(part, type.getShape());
    (void)n.set(i, part);
  }
  return success(!n.failed());
}

/// Writes `src` into a slice of the operand.
LogicalResult convertScatterRange(NodeConverter &n) {
  Value x = n.tensor("self"), part = n.tensor("src");
  if (n.failed())
    return failure();
  Value value = writeRange(n, 0, x, n.convert(part, getElement(x)));
  return n.failed() ? failure() : n.set(value);
}

/// Returns the operands, converted to the result's element type. Skips operands of shape [0], which
/// PyTorch ignores.
SmallVector<Value> getParts(NodeConverter &n) {
  SmallVector<Value> parts;
  Type element = n.getResultType().getElementType();
  for (Value value : n.tensors("tensors")) {
    if (!value)
      (void)n.fail("has a missing operand");
    else if (getType(value).getNumElements() || getRank(value) != 1)
      parts.push_back(n.convert(value, element));
  }
  if (parts.empty())
    (void)n.fail("has no operands to concatenate");
  return parts;
}

LogicalResult convertCat(NodeConverter &n) {
  SmallVector<Value> parts = getParts(n);
  if (n.failed())
    return failure();
  return n.set(n.concat(parts, wrapDim(n.integer("dim", 0), getRank(parts[0]))));
}

LogicalResult convertStack(NodeConverter &n) {
  SmallVector<Value> parts = getParts(n);
  if (n.failed())
    return failure();
  std::optional<int64_t> dim = findDim(n, "dim", getRank(parts[0]) + 1, 0);
  if (!dim)
    return failure();
  SmallVector<int64_t> shape(getShape(parts[0]));
  shape.insert(shape.begin() + *dim, 1);
  for (Value &part : parts)
    part = n.reshape(part, shape);
  return n.set(n.concat(parts, *dim));
}

LogicalResult convertPad(NodeConverter &n) {
  Value x = n.tensor("self");
  SmallVector<int64_t> pad = n.integers("pad");
  std::string mode = n.string("mode");
  double value = n.number("value", 0);
  if (n.failed())
    return failure();
  if (!mode.empty() && mode != "constant")
    return n.fail("pads with mode '" + mode + "'; only 'constant' is supported");
  int64_t rank = getRank(x);
  if (int64_t(pad.size()) > 2 * rank)
    return n.fail("has " + llvm::Twine(pad.size()) + " padding numbers for " +
                  debugString(x.getType()));
  SmallVector<int64_t> low(rank, 0), high(rank, 0);
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    low[rank - 1 - i / 2] = pad[i];
    high[rank - 1 - i / 2] = pad[i + 1];
  }
  return n.set(buildPad(n, x, low, high, value));
}

LogicalResult convertRepeat(NodeConverter &n) {
  Value x = n.tensor("self");
  SmallVector<int64_t> repeats = n.integers("repeats");
  if (n.failed())
    return failure();
  if (int64_t(repeats.size()) < getRank(x))
    return n.fail("has " + llvm::Twine(repeats.size()) + " repeats for " +
                  debugString(x.getType()));
  // A tensor [a, b], repeated (r, s) times, is reshaped to [1, a, 1, b], expanded to [r, a, s, b],
  // and reshaped to [r * a, s * b].
  SmallVector<int64_t> sizes(repeats.size() - getRank(x), 1), single, expanded;
  llvm::append_range(sizes, getShape(x));
  for (auto [repeat, size] : llvm::zip(repeats, sizes)) {
    single.append({1, size});
    expanded.append({repeat, size});
  }
  Value value = n.broadcast(n.reshape(x, single), expanded);
  return n.failed() ? failure() : n.set(n.reshape(value, n.getResultType().getShape()));
}

/// Converts repeat_interleave with one count. Example: [1, 2] with 2 repeats gives [1, 1, 2, 2].
LogicalResult convertRepeatInterleave(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  if (!n.has("dim"))
    x = n.reshape(x, {getType(x).getNumElements()});
  n.markTypeOnly({"output_size"});
  int64_t repeats = n.integer("repeats");
  std::optional<int64_t> dim = findDim(n, "dim", getRank(x), 0);
  if (!dim)
    return failure();
  SmallVector<int64_t> shape(getShape(x));
  shape.insert(shape.begin() + *dim + 1, 1);
  Value value = n.reshape(x, shape);
  shape[*dim + 1] = repeats;
  value = n.broadcast(value, shape);
  return n.failed() ? failure() : n.set(n.reshape(value, n.getResultType().getShape()));
}

} // namespace

void addMovementConverters(ConverterTable &table) {
  table["aten.view"] = convertView;
  table["aten.reshape"] = convertView;
  table["aten._unsafe_view"] = convertView;
  table["aten.flatten"] = convertView;
  table["aten.unflatten"] = convertView;
  table["aten.unsqueeze"] = convertView;
  table["aten.squeeze"] = convertView;
  table["aten.view_as"] = convertView;
  table["aten.expand"] = convertExpand;
  table["aten.expand_as"] = convertExpand;
  table["aten.broadcast_to"] = convertExpand;
  table["aten.broadcast_tensors"] = convertBroadcastTensors;
  table["aten.transpose"] = convertTranspose;
  table["aten.t"] = convertT;
  table["aten.numpy_T"] = convertT;
  table["aten.mT"] = convertMatrixTranspose;
  // The conjugate transpose of a real tensor is its transpose. Complex tensors are not imported.
  table["aten.mH"] = convertMatrixTranspose;
  table["aten.matrix_H"] = convertMatrixTranspose;
  table["aten.adjoint"] = convertMatrixTranspose;
  table["aten.permute"] = convertPermute;
  table["aten.slice.Tensor"] = convertRanges;
  table["aten.narrow"] = convertRanges;
  table["aten.select.int"] = convertRanges;
  table["aten.split"] = convertRanges;
  table["aten.split_with_sizes"] = convertRanges;
  table["aten.chunk"] = convertRanges;
  table["aten.unbind"] = convertRanges;
  table["aten.slice_scatter"] = convertScatterRange;
  table["aten.select_scatter"] = convertScatterRange;
  table["aten.cat"] = convertCat;
  table["aten.stack"] = convertStack;
  table["aten.pad"] = convertPad;
  table["aten.constant_pad_nd"] = convertPad;
  table["aten.repeat"] = convertRepeat;
  table["aten.repeat_interleave.self_int"] = convertRepeatInterleave;
}

} // namespace parashard::import
