// Converts data movement, shapes, and sequences of tensors.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Reshapes x. In the shape, -1 is computed from the other sizes. 0 copies the size of the same dim
/// of x (unless `allowzero`).
LogicalResult convertReshape(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> shape = n.integersInput(1);
  if (n.failed())
    return failure();
  if (llvm::any_of(shape, [](int64_t size) { return size > INT32_MAX || size < -1; }))
    return n.fail("has a shape with a size below -1, or of at least 2^31");
  bool allowZero = n.integer("allowzero", 0);
  int64_t known = 1, open = -1;
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (size == 0 && !allowZero && int64_t(i) < getRank(x))
      size = getShape(x)[i];
    if (size < 0)
      open = i;
    else
      known *= size;
  }
  int64_t count = getType(x).getNumElements();
  if (open >= 0)
    shape[open] = known ? count / known : 0;
  if (llvm::any_of(shape, [](int64_t size) { return size < 0; }) ||
      llvm::product_of(shape) != count)
    return n.fail("reshapes " + debugString(x.getType()) +
                  " to another number of elements: the shape contains a fixed number instead of a "
                  "size that --dim or --batch changes");
  return n.set(n.reshape(x, shape));
}

LogicalResult convertFlatten(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  int64_t axis = wrapDim(n.integer("axis", 1), getRank(x));
  if (axis < 0 || axis > getRank(x))
    return n.fail("has an axis out of range");
  return n.set(n.reshape(x, {llvm::product_of(getShape(x).take_front(axis)),
                             llvm::product_of(getShape(x).drop_front(axis))}));
}

LogicalResult convertSqueeze(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> axes = n.integersOf("axes", 1);
  if (n.failed())
    return failure();
  axes = wrapDims(axes, getRank(x));
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(getShape(x)))
    if (axes.empty() ? size != 1 : !llvm::is_contained(axes, int64_t(dim)))
      shape.push_back(size);
  if (llvm::product_of(shape) != getType(x).getNumElements())
    return n.fail("squeezes a dim of " + debugString(x.getType()) + " that is not of size 1");
  return n.set(n.reshape(x, shape));
}

LogicalResult convertUnsqueeze(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> axes = n.integersOf("axes", 1);
  if (n.failed())
    return failure();
  axes = wrapDims(axes, getRank(x) + axes.size());
  llvm::sort(axes);
  SmallVector<int64_t> shape(getShape(x));
  for (int64_t axis : axes) {
    if (axis < 0 || axis > int64_t(shape.size()))
      return n.fail("has the axis " + Twine(axis) + ", which is out of range");
    shape.insert(shape.begin() + axis, 1);
  }
  return n.set(n.reshape(x, shape));
}

LogicalResult convertTranspose(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> permutation = n.integers("perm");
  if (n.failed())
    return failure();
  if (!n.hasAttribute("perm"))
    permutation = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, getRank(x))));
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, getRank(x))))
    return n.fail("has a 'perm' that is not a permutation of the operand's dims");
  return n.set(n.transpose(x, permutation));
}

LogicalResult convertExpand(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> shape = n.integersInput(1);
  if (n.failed())
    return failure();
  if (!n.checkShape(shape))
    return failure();
  shape = n.commonShape(x, n.splat(RankedTensorType::get(shape, getElement(x)), 0));
  if (!n.checkShape(shape))
    return failure();
  x = n.broadcast(x, shape);
  return n.failed() ? failure() : n.set(x);
}

/// Fails unless the tensors have the same element type, and the same sizes in all dims except
/// `dim`.
bool checkSameTypes(OnnxNode &n, ArrayRef<Value> parts, int64_t dim) {
  for (Value part : parts) {
    bool same = getRank(part) == getRank(parts[0]) && getElement(part) == getElement(parts[0]);
    for (int64_t i = 0; same && i < getRank(part); ++i)
      same = i == dim || getShape(part)[i] == getShape(parts[0])[i];
    if (!same) {
      (void)n.fail("concatenates " + debugString(parts[0].getType()) + " and " +
                   debugString(part.getType()) + " along dim " + Twine(dim) +
                   "; expected equal element types, and equal sizes of all other dims");
      return false;
    }
  }
  return true;
}

LogicalResult convertConcat(OnnxNode &n) {
  SmallVector<Value> parts = n.inputs();
  if (n.failed() || parts.empty())
    return n.fail("has no inputs");
  int64_t dim = n.axis(0, getRank(parts[0]));
  if (n.failed() || !checkSameTypes(n, parts, dim))
    return failure();
  return n.set(n.concat(parts, dim));
}

/// Takes the elements start, start + step, ... before `end`, like a slice in Python.
Value takeRange(OnnxNode &n, Value x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  int64_t size = getShape(x)[dim];
  auto clamp = [&](int64_t at, int64_t least, int64_t most) {
    return std::clamp(at < 0 ? at + size : at, least, most);
  };
  if (step > 0) {
    start = clamp(start, 0, size), end = std::max(start, clamp(end, 0, size));
    return n.slice(x, dim, start, end, step);
  }
  start = clamp(start, 0, size - 1), end = clamp(end, -1, size - 1);
  SmallVector<int64_t> indices;
  for (int64_t at = start; at > end; at += step)
    indices.push_back(at);
  return takeInOrder(n, x, indices, dim);
}

LogicalResult convertSlice(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> starts = n.integersInput(1), ends = n.integersInput(2), axes, steps;
  if (n.has(3))
    axes = n.integersInput(3);
  if (n.has(4))
    steps = n.integersInput(4);
  if (n.failed())
    return failure();
  if (axes.empty())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, starts.size()));
  steps.resize(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size())
    return n.fail("has different numbers of starts, ends and axes");
  for (auto [i, axis] : llvm::enumerate(wrapDims(axes, getRank(x)))) {
    if (axis < 0 || axis >= getRank(x) || steps[i] == 0)
      return n.fail("has an axis out of range, or a step of 0");
    x = takeRange(n, x, axis, starts[i], ends[i], steps[i]);
  }
  return n.failed() ? failure() : n.set(x);
}

/// Returns the sizes of parts of `part` elements each; the last part may be smaller. Example: 7 and
/// 3 give 3, 3, 1.
SmallVector<int64_t> splitEvenly(int64_t size, int64_t part) {
  SmallVector<int64_t> sizes;
  for (int64_t at = 0; at < size; at += part)
    sizes.push_back(std::min(part, size - at));
  return sizes;
}

SmallVector<Value> takeParts(OnnxNode &n, Value x, int64_t dim, ArrayRef<int64_t> sizes) {
  SmallVector<Value> parts;
  int64_t at = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > getShape(x)[dim] - at) {
      (void)n.fail("splits a dim of size " + Twine(getShape(x)[dim]) +
                   " into parts that are too large");
      return parts;
    }
    parts.push_back(n.slice(x, dim, at, at + size));
    at += size;
  }
  if (at != getShape(x)[dim])
    (void)n.fail("splits a dim of size " + Twine(getShape(x)[dim]) + " into parts with " +
                 describeCount(at, "element") + " in total");
  return parts;
}

LogicalResult convertSplit(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> sizes = n.integersOf("split", 1);
  if (n.failed())
    return failure();
  int64_t dim = n.axis(0, getRank(x));
  if (n.failed())
    return failure();
  int64_t count = std::max<int64_t>(1, n.integer("num_outputs", n.getNumResults()));
  if (sizes.empty())
    sizes = splitEvenly(getShape(x)[dim],
                        std::max<int64_t>(1, llvm::divideCeil(getShape(x)[dim], count)));
  if (sizes.size() != n.getNumResults())
    return n.fail("splits a dim of size " + Twine(getShape(x)[dim]) + " into " +
                  Twine(sizes.size()) + " parts, but has " +
                  describeCount(n.getNumResults(), "result"));
  for (auto [i, part] : llvm::enumerate(takeParts(n, x, dim, sizes)))
    if (failed(n.set(i, part)))
      return failure();
  return success(!n.failed());
}

LogicalResult convertTile(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> repeats = n.integersInput(1), single, expanded, result;
  if (n.failed())
    return failure();
  if (int64_t(repeats.size()) != getRank(x))
    return n.fail("has " + Twine(repeats.size()) + " repeats for " +
                  describeCount(getRank(x), "dim"));
  for (auto [repeat, size] : llvm::zip(repeats, getShape(x))) {
    single.append({1, size});
    expanded.append({repeat, size});
  }
  if (!n.checkShape(expanded))
    return failure();
  for (auto [repeat, size] : llvm::zip(repeats, getShape(x)))
    result.push_back(repeat * size);
  x = n.broadcast(n.reshape(x, single), expanded);
  return n.failed() ? failure() : n.set(n.reshape(x, result));
}

LogicalResult convertPad(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> pads = n.integersInput(1), axes;
  if (n.has(3))
    axes = n.integersInput(3);
  std::optional<double> value = n.has(2) ? n.numberInput(2) : 0.0;
  if (n.failed())
    return failure();
  if (std::string mode = n.string("mode", "constant"); mode != "constant")
    return n.fail("pads with mode '" + mode + "'; only 'constant' is supported");
  if (!value)
    return n.fail("pads with a value that is not known at import");
  int64_t rank = getRank(x);
  axes = axes.empty() ? llvm::to_vector(llvm::seq<int64_t>(0, rank)) : wrapDims(axes, rank);
  if (pads.size() != 2 * axes.size())
    return n.fail("has " + Twine(pads.size()) + " pads for " + describeCount(axes.size(), "dim") +
                  "; expected 2 per dim");
  SmallVector<int64_t> low(rank, 0), high(rank, 0);
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis < 0 || axis >= rank)
      return n.fail("pads a dim that is out of range");
    else
      low[axis] = pads[i], high[axis] = pads[i + axes.size()];
  SmallVector<int64_t> padded(getShape(x));
  for (int64_t dim = 0; dim < rank; ++dim)
    if (std::min(low[dim], high[dim]) < -INT32_MAX || std::max(low[dim], high[dim]) > INT32_MAX)
      return n.fail("pads by 2^31 elements or more");
    else
      padded[dim] += low[dim] + high[dim];
  if (!n.checkShape(padded))
    return failure();
  return n.set(buildPad(n, x, low, high, *value));
}

/// Fails unless x is [N, C, H, W] and can be split into blocks. With `toSpace`, C must be divisible
/// by block^2. Otherwise, H and W must be divisible by `block`.
bool checkBlocks(OnnxNode &n, Value x, int64_t block, bool toSpace) {
  bool fits = getRank(x) == 4 && block >= 1 && block <= INT16_MAX;
  if (fits)
    fits = toSpace ? getShape(x)[1] % (block * block) == 0
                   : getShape(x)[2] % block == 0 && getShape(x)[3] % block == 0;
  if (!fits)
    (void)n.fail("has blocks of size " + Twine(block) + " for " + debugString(x.getType()) +
                 "; expected [N, C, H, W], with C (or H and W) divisible into blocks");
  return fits;
}

/// Returns the attribute `mode`: the order of the dims that are merged into the channels. "DCR" is
/// [block, channel], "CRD" is [channel, block].
std::string getBlockMode(OnnxNode &n) {
  std::string mode = n.string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    (void)n.fail("has the mode '" + mode + "'; expected DCR or CRD");
  return mode;
}

LogicalResult convertDepthToSpace(OnnxNode &n) {
  Value x = n.input(0);
  int64_t b = n.integer("blocksize", 0);
  std::string mode = getBlockMode(n);
  if (n.failed() || !checkBlocks(n, x, b, /*toSpace=*/true))
    return failure();
  ArrayRef<int64_t> s = getShape(x);
  int64_t images = s[0], channels = s[1] / (b * b), height = s[2], width = s[3];
  Value y =
      mode == "DCR"
          ? n.transpose(n.reshape(x, {images, b, b, channels, height, width}), {0, 3, 4, 1, 5, 2})
          : n.transpose(n.reshape(x, {images, channels, b, b, height, width}), {0, 1, 4, 2, 5, 3});
  return n.set(n.reshape(y, {images, channels, height * b, width * b}));
}

LogicalResult convertSpaceToDepth(OnnxNode &n) {
  Value x = n.input(0);
  int64_t b = n.integer("blocksize", 0);
  std::string mode = getBlockMode(n);
  if (n.failed() || !checkBlocks(n, x, b, /*toSpace=*/false))
    return failure();
  ArrayRef<int64_t> s = getShape(x);
  int64_t images = s[0], channels = s[1], height = s[2] / b, width = s[3] / b;
  x = n.reshape(x, {images, channels, height, b, width, b});
  Value y = mode == "DCR" ? n.transpose(x, {0, 3, 5, 1, 2, 4}) : n.transpose(x, {0, 1, 3, 5, 2, 4});
  return n.set(n.reshape(y, {images, channels * b * b, height, width}));
}

Value buildIntegers(OnnxNode &n, ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, n.i64());
  return n.make<ps::ConstantOp>(DenseElementsAttr::get(type, values));
}

LogicalResult convertShape(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  int64_t rank = getRank(x);
  int64_t start = std::clamp<int64_t>(wrapDim(n.integer("start", 0), rank), 0, rank);
  int64_t end = std::clamp<int64_t>(wrapDim(n.integer("end", rank), rank), start, rank);
  return n.set(buildIntegers(n, getShape(x).slice(start, end - start)));
}

LogicalResult convertSize(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  return n.set(n.splat(RankedTensorType::get({}, n.i64()), double(getType(x).getNumElements())));
}

//===----------------------------------------------------------------------===//
// Sequences of known length
//===----------------------------------------------------------------------===//

LogicalResult convertSplitToSequence(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> sizes = n.has(1) ? n.integersInput(1) : SmallVector<int64_t>{1};
  if (n.failed())
    return failure();
  int64_t dim = n.axis(0, getRank(x));
  if (n.failed() || sizes.empty())
    return n.fail("has no sizes");
  bool isOneSize = !n.has(1) || getRank(n.input(1)) == 0;
  if (isOneSize)
    sizes = splitEvenly(getShape(x)[dim], std::max<int64_t>(1, sizes[0]));
  SmallVector<Value> parts = takeParts(n, x, dim, sizes);
  bool keepsDim = n.integer("keepdims", 1);
  if (!n.has(1) && !keepsDim) {
    SmallVector<int64_t> shape(getShape(x));
    shape.erase(shape.begin() + dim);
    for (Value &part : parts)
      part = n.reshape(part, shape);
  }
  return n.setSequence(std::move(parts));
}

LogicalResult convertSequenceAt(OnnxNode &n) {
  const SmallVector<Value> *values = n.sequence(0);
  SmallVector<int64_t> position = n.integersInput(1);
  if (n.failed() || position.size() != 1)
    return n.fail("needs a position with exactly one element");
  int64_t at = wrapDim(position[0], values->size());
  if (at < 0 || at >= int64_t(values->size()))
    return n.fail("takes element " + Twine(position[0]) + " of a sequence with " +
                  describeCount(values->size(), "element"));
  return n.set((*values)[at]);
}

LogicalResult convertSequenceConstruct(OnnxNode &n) { return n.setSequence(n.inputs()); }

LogicalResult convertConcatFromSequence(OnnxNode &n) {
  const SmallVector<Value> *values = n.sequence(0);
  if (n.failed() || values->empty())
    return n.fail("has an empty sequence");
  SmallVector<Value> parts(*values);
  bool isNew = n.integer("new_axis", 0);
  int64_t dim = n.axis(0, getRank(parts[0]) + isNew);
  if (n.failed() || !checkSameTypes(n, parts, isNew ? -1 : dim))
    return failure();
  if (isNew)
    for (Value &part : parts) {
      SmallVector<int64_t> shape(getShape(part));
      shape.insert(shape.begin() + dim, 1);
      part = n.reshape(part, shape);
    }
  return n.set(n.concat(parts, dim));
}

} // namespace

void addOnnxShapeConverters(OnnxConverterTable &table) {
  table["Reshape"] = convertReshape;
  table["Flatten"] = convertFlatten;
  table["Squeeze"] = convertSqueeze;
  table["Unsqueeze"] = convertUnsqueeze;
  table["Transpose"] = convertTranspose;
  table["Expand"] = convertExpand;
  table["Concat"] = convertConcat;
  table["Slice"] = convertSlice;
  table["Split"] = convertSplit;
  table["Tile"] = convertTile;
  table["Pad"] = convertPad;
  table["DepthToSpace"] = convertDepthToSpace;
  table["SpaceToDepth"] = convertSpaceToDepth;
  table["Shape"] = convertShape;
  table["Size"] = convertSize;
  table["SplitToSequence"] = convertSplitToSequence;
  table["SequenceAt"] = convertSequenceAt;
  table["SequenceConstruct"] = convertSequenceConstruct;
  table["ConcatFromSequence"] = convertConcatFromSequence;
}

} // namespace parashard::import
