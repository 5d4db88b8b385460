// Converts ops that reorder elements (roll, flip, pixel shuffle), and eye and linspace.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Dims.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Maximum size of a flipped dim. `takeInOrder` rejects flips of more than 16 elements, but needs a
/// list of all indices, which would be long for larger dims.
constexpr int64_t kMaxFlipped = 1 << 16;

LogicalResult convertFlip(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  SmallVector<int64_t> dims = wrapDims(n.integers("dims"), getRank(x));
  if (!checkDims(n, dims, getRank(x)))
    return failure();
  for (int64_t dim : dims) {
    if (getShape(x)[dim] == 0)
      continue;
    if (getShape(x)[dim] > kMaxFlipped)
      return n.fail("flips a dim of size " + llvm::Twine(getShape(x)[dim]) +
                    ", which is not supported");
    auto indices = llvm::to_vector(llvm::seq<int64_t>(0, getShape(x)[dim]));
    x = takeInOrder(n, x, SmallVector<int64_t>(llvm::reverse(indices)), dim);
  }
  return n.failed() ? failure() : n.set(x);
}

Value roll(NodeConverter &n, Value x, int64_t shift, int64_t dim) {
  int64_t size = getShape(x)[dim];
  shift = size == 0 ? 0 : ((shift % size) + size) % size;
  if (shift == 0)
    return x;
  return n.concat({n.slice(x, dim, size - shift, size), n.slice(x, dim, 0, size - shift)}, dim);
}

/// Converts roll. Without dims, rolls the flattened tensor.
LogicalResult convertRoll(NodeConverter &n) {
  Value x = n.tensor("self");
  SmallVector<int64_t> shifts = n.integers("shifts");
  if (n.failed())
    return failure();
  SmallVector<int64_t> shape(getShape(x)), dims = wrapDims(n.integers("dims"), getRank(x));
  if (!checkDims(n, dims, getRank(x)))
    return failure();
  if (dims.empty()) {
    x = n.reshape(x, {getType(x).getNumElements()});
    dims = {0};
  }
  for (auto [shift, dim] : llvm::zip(shifts, dims))
    x = roll(n, x, shift, dim);
  return n.set(n.reshape(x, shape));
}

/// Fails unless the last three dims (channels, height, width) are divisible by the given numbers.
LogicalResult cutPlanes(NodeConverter &n, Value x, int64_t channels, int64_t height,
                        int64_t width) {
  ArrayRef<int64_t> s = n.failed() ? ArrayRef<int64_t>() : getShape(x);
  if (n.failed() || (s.size() >= 3 && channels >= 1 && height >= 1 && width >= 1 &&
                     s[s.size() - 3] % channels == 0 && s[s.size() - 2] % height == 0 &&
                     s[s.size() - 1] % width == 0))
    return failure(n.failed());
  return n.fail("cannot cut " + debugString(x.getType()) + " into pieces of " +
                describeCount(channels, "channel") + ", " + describeCount(height, "row") + " and " +
                llvm::Twine(width) + " columns");
}

/// Reshapes the last three dims to `pieces`, permutes these dims by `order`, and reshapes them to
/// `planes`. Keeps the leading dims.
Value rearrange(NodeConverter &n, Value x, ArrayRef<int64_t> pieces, ArrayRef<int64_t> order,
                ArrayRef<int64_t> planes) {
  SmallVector<int64_t> shape(getShape(x).drop_back(3)), result(shape), permutation;
  for (int64_t i = 0; i < int64_t(shape.size()); ++i)
    permutation.push_back(i);
  for (int64_t i : order)
    permutation.push_back(int64_t(shape.size()) + i);
  shape.append(pieces.begin(), pieces.end());
  result.append(planes.begin(), planes.end());
  return n.reshape(n.transpose(n.reshape(x, shape), permutation), result);
}

LogicalResult convertPixelShuffle(NodeConverter &n) {
  Value x = n.tensor("self");
  int64_t r = n.integer("upscale_factor");
  if (n.failed() || r < 1 || r > INT16_MAX || failed(cutPlanes(n, x, r * r, 1, 1)))
    return n.failed() ? failure() : n.fail("has the factor " + llvm::Twine(r));
  ArrayRef<int64_t> s = getShape(x).take_back(3);
  int64_t channels = s[0] / (r * r);
  return n.set(rearrange(n, x, {channels, r, r, s[1], s[2]}, {0, 3, 1, 4, 2},
                         {channels, s[1] * r, s[2] * r}));
}

LogicalResult convertPixelUnshuffle(NodeConverter &n) {
  Value x = n.tensor("self");
  int64_t r = n.integer("downscale_factor");
  if (n.failed() || r < 1 || r > INT16_MAX || failed(cutPlanes(n, x, 1, r, r)))
    return n.failed() ? failure() : n.fail("has the factor " + llvm::Twine(r));
  ArrayRef<int64_t> s = getShape(x).take_back(3);
  return n.set(rearrange(n, x, {s[0], s[1] / r, r, s[2] / r, r}, {0, 2, 4, 1, 3},
                         {s[0] * r * r, s[1] / r, s[2] / r}));
}

LogicalResult convertChannelShuffle(NodeConverter &n) {
  Value x = n.tensor("self");
  int64_t groups = n.integer("groups");
  if (n.failed() || failed(cutPlanes(n, x, groups, 1, 1)))
    return failure();
  ArrayRef<int64_t> s = getShape(x).take_back(3);
  return n.set(rearrange(n, x, {groups, s[0] / groups, s[1], s[2]}, {1, 0, 2, 3}, s));
}

/// Builds the identity matrix.
LogicalResult convertEye(NodeConverter &n) {
  n.markTypeOnly({"n", "m"});
  RankedTensorType type = n.getResultType();
  if (n.failed())
    return failure();
  if (type.getRank() != 2)
    return n.fail("returns " + debugString(type) + "; expected a matrix");
  RankedTensorType indexType = type.clone(n.i64());
  Value same = n.compare(ps::Predicate::Eq, n.make<ps::IotaOp>(indexType, 0),
                         n.make<ps::IotaOp>(indexType, 1));
  return n.set(n.convert(same, type.getElementType()));
}

/// Builds linspace. As in PyTorch, computes the first half from `start` and the second half from
/// `end`, so that both ends are exact.
LogicalResult convertLinspace(NodeConverter &n) {
  n.markTypeOnly({"steps"});
  double start = n.scalar("start").value, end = n.scalar("end").value;
  RankedTensorType type = n.getResultType();
  if (n.failed())
    return failure();
  if (type.getRank() != 1)
    return n.fail("returns " + debugString(type) + "; expected 1 dim");
  int64_t steps = type.getNumElements(), half = steps / 2;
  if (steps < 2)
    return n.set(n.splat(type, start));
  RankedTensorType wide = type.clone(n.b.getF64Type());
  Value step = n.splat(wide, (end - start) / double(steps - 1));
  Value index = n.convert(n.make<ps::IotaOp>(type.clone(n.i64()), 0), wide.getElementType());
  Value rest = n.make<ps::SubOp>(n.splat(wide, double(steps - 1)), index);
  Value up = n.make<ps::AddOp>(n.splat(wide, start), n.make<ps::MulOp>(step, index));
  Value down = n.make<ps::SubOp>(n.splat(wide, end), n.make<ps::MulOp>(step, rest));
  Value isFirstHalf = n.compare(ps::Predicate::Lt, index, n.splat(wide, double(half)));
  return n.set(n.make<ps::SelectOp>(isFirstHalf, up, down));
}

} // namespace

void addRearrangeConverters(ConverterTable &table) {
  table["aten.channel_shuffle"] = convertChannelShuffle;
  table["aten.flip"] = convertFlip;
  table["aten.pixel_shuffle"] = convertPixelShuffle;
  table["aten.pixel_unshuffle"] = convertPixelUnshuffle;
  table["aten.roll"] = convertRoll;
  table["aten.eye"] = convertEye;
  table["aten.linspace"] = convertLinspace;
}

} // namespace parashard::import
