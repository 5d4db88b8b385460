// Builds data movement and reductions: padding, tril and triu, constant permutations of a dim,
// writes to a slice, argmax, and products along a dim.
#include "lib/Import/BuildOps.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Maximum number of slices in takeInOrder.
constexpr size_t kMaxRuns = 16;
/// Maximum padding of a dim. Larger padding indicates a damaged file.
constexpr int64_t kMaxPositions = INT32_MAX;

/// Indices `start`, `start + step`, ... up to `last`.
struct Run {
  int64_t start, last, step;
};

/// Splits the indices into arithmetic progressions with a positive step. Example: {0, 2, 4, 1, 3}
/// gives {0 to 4 by 2} and {1 to 3 by 2}.
SmallVector<Run> findRuns(ArrayRef<int64_t> indices) {
  SmallVector<Run> runs;
  for (int64_t index : indices) {
    if (!runs.empty()) {
      Run &run = runs.back();
      int64_t step = index - run.last;
      if (step > 0 && (run.start == run.last || step == run.step)) {
        run.last = index;
        run.step = step;
        continue;
      }
    }
    runs.push_back({index, index, 1});
  }
  return runs;
}

} // namespace

Value takeInOrder(TensorBuilder &n, Value x, ArrayRef<int64_t> indices, int64_t dim) {
  SmallVector<Run> runs = findRuns(indices);
  if (runs.empty() || runs.size() > kMaxRuns) {
    (void)n.fail("takes elements of dim " + Twine(dim) + " in an order of " + Twine(runs.size()) +
                 " arithmetic progressions, which is not supported; expected 1 to " +
                 Twine(kMaxRuns));
    return x;
  }
  SmallVector<Value> parts;
  for (const Run &run : runs)
    parts.push_back(n.slice(x, dim, run.start, run.last + 1, run.step));
  return n.concat(parts, dim);
}

/// Pads each dim of x with `value`: `low` elements before and `high` elements after the dim.
static Value surround(TensorBuilder &n, Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                      double value) {
  for (int64_t dim = 0; dim < getRank(x); ++dim) {
    SmallVector<Value> parts;
    auto addPart = [&](int64_t size) {
      SmallVector<int64_t> shape(getShape(x));
      shape[dim] = size;
      if (size)
        parts.push_back(n.splat(getType(x).clone(shape), value));
    };
    addPart(low[dim]);
    parts.push_back(x);
    addPart(high[dim]);
    x = n.concat(parts, dim);
  }
  return x;
}

Value buildPad(TensorBuilder &n, Value x, ArrayRef<int64_t> before, ArrayRef<int64_t> after,
               double value) {
  int64_t rank = getRank(x);
  SmallVector<int64_t> low(rank), high(rank), strides(rank, 1), shape(rank);
  for (int64_t dim = 0; dim < rank; ++dim) {
    int64_t size = getShape(x)[dim];
    if (std::max(before[dim], after[dim]) > kMaxPositions ||
        std::min(before[dim], after[dim]) < -size) {
      (void)n.fail("pads by " + Twine(before[dim]) + " and " + Twine(after[dim]) +
                   " along a dim of size " + Twine(size) + ", which is out of range");
      return x;
    }
    low[dim] = std::max<int64_t>(0, before[dim]), high[dim] = std::max<int64_t>(0, after[dim]);
    x = n.slice(x, dim, std::max<int64_t>(0, -before[dim]),
                size - std::max<int64_t>(0, -after[dim]));
    shape[dim] = getShape(x)[dim] + low[dim] + high[dim];
  }
  if (getShape(x) == ArrayRef(shape))
    return x;
  if (value != 0)
    return surround(n, x, low, high, value);
  return n.make<ps::PadOp>(getType(x).clone(shape), x, low, high, strides);
}

Value buildTriangle(TensorBuilder &n, Value x, int64_t diagonal, ps::Predicate predicate) {
  if (getRank(x) < 2) {
    (void)n.fail("takes a triangle of " + debugString(x.getType()) + "; expected at least 2 dims");
    return x;
  }
  RankedTensorType indexType = n.typeLike(x, n.i64());
  Value row = n.make<ps::IotaOp>(indexType, getRank(x) - 2);
  Value column = n.make<ps::IotaOp>(indexType, getRank(x) - 1);
  if (diagonal)
    row = n.make<ps::AddOp>(row, n.splat(indexType, diagonal));
  Value kept = n.compare(predicate, column, row);
  return n.make<ps::SelectOp>(kept, x, n.splat(getType(x), 0));
}

/// Returns true if all elements of `part`, at `starts` with step `strides`, are within `base`.
static bool fitsInto(Value base, Value part, ArrayRef<int64_t> starts, ArrayRef<int64_t> strides) {
  if (getRank(part) != getRank(base))
    return false;
  for (int64_t dim = 0; dim < getRank(base); ++dim) {
    int64_t size = getShape(base)[dim], count = getShape(part)[dim];
    if (starts[dim] < 0 || strides[dim] < 1 || starts[dim] > size ||
        (count > 0 && (starts[dim] == size || count - 1 > (size - 1 - starts[dim]) / strides[dim])))
      return false;
  }
  return true;
}

/// Writes `part` into `base` by a select. Pads `part` with zeros to the shape of `base`. Selects
/// elements of `part` where `part` is written, and elements of `base` elsewhere.
static Value chooseSpread(TensorBuilder &n, Value base, Value part, ArrayRef<int64_t> starts,
                          ArrayRef<int64_t> strides) {
  SmallVector<int64_t> high;
  for (auto [size, count, start, stride] :
       llvm::zip(getShape(base), getShape(part), starts, strides))
    high.push_back(size - start - (count ? (count - 1) * stride + 1 : 0));
  auto spread = [&](Value value) {
    auto type = RankedTensorType::get(getShape(base), getElement(value));
    return n.make<ps::PadOp>(type, value, starts, high, strides);
  };
  Value ones = spread(n.splat(n.typeLike(part, n.f32()), 1));
  Value chosen = n.compare(ps::Predicate::Ne, ones, n.splat(getType(ones), 0));
  return n.make<ps::SelectOp>(getType(base), chosen, spread(part), base);
}

Value writePart(TensorBuilder &n, Value base, Value part, ArrayRef<int64_t> starts,
                ArrayRef<int64_t> strides) {
  if (!fitsInto(base, part, starts, strides)) {
    (void)n.fail("writes " + debugString(part.getType()) +
                 " at indices that are out of range for " + debugString(base.getType()));
    return base;
  }
  if (getType(part).getNumElements() == 0)
    return base;
  SmallVector<int64_t> partial;
  for (int64_t dim = 0; dim < getRank(base); ++dim)
    if (getShape(part)[dim] != getShape(base)[dim])
      partial.push_back(dim);
  if (partial.empty())
    return part;
  int64_t dim = partial[0], end = starts[dim] + getShape(part)[dim];
  if (partial.size() > 1 || strides[dim] != 1)
    return chooseSpread(n, base, part, starts, strides);
  SmallVector<Value> parts;
  if (starts[dim] > 0)
    parts.push_back(n.slice(base, dim, 0, starts[dim]));
  parts.push_back(part);
  if (end < getShape(base)[dim])
    parts.push_back(n.slice(base, dim, end, getShape(base)[dim]));
  return n.concat(parts, dim);
}

/// Fails if `x` has no dim `dim`.
static bool checkDim(TensorBuilder &n, Value x, int64_t dim) {
  if (dim >= 0 && dim < getRank(x))
    return true;
  (void)n.fail("has no dim " + Twine(dim) + " in " + debugString(x.getType()));
  return false;
}

Value findExtremumIndex(TensorBuilder &n, Value x, int64_t dim, ps::ReductionKind kind) {
  if (!checkDim(n, x, dim))
    return x;
  Value extremum = n.broadcast(n.reduce(kind, x, {dim}, true), getShape(x));
  Value hits = n.compare(ps::Predicate::Eq, x, extremum);
  if (isFloat(x))
    hits = n.make<ps::OrOp>(hits, n.compare(ps::Predicate::Ne, x, x));
  RankedTensorType indices = n.typeLike(x, n.i64());
  Value none = n.splat(indices, double(getShape(x)[dim]));
  Value candidates = n.make<ps::SelectOp>(hits, n.make<ps::IotaOp>(indices, dim), none);
  return n.reduce(ps::ReductionKind::Min, candidates, {dim}, true);
}

Value buildProduct(TensorBuilder &n, Value x, int64_t dim) {
  if (!checkDim(n, x, dim))
    return x;
  if (getShape(x)[dim] == 0) { // the product of no factors is 1
    SmallVector<int64_t> shape(getShape(x));
    shape[dim] = 1;
    return n.splat(getType(x).clone(shape), 1);
  }
  Value odd;
  while (getShape(x)[dim] > 1) {
    int64_t size = getShape(x)[dim], half = size / 2;
    if (size % 2) {
      Value last = n.slice(x, dim, size - 1, size);
      odd = odd ? n.make<ps::MulOp>(odd, last) : last;
    }
    x = n.make<ps::MulOp>(n.slice(x, dim, 0, half), n.slice(x, dim, half, 2 * half));
  }
  return odd ? n.make<ps::MulOp>(x, odd) : x;
}

Value buildMean(TensorBuilder &n, Value x, ArrayRef<int64_t> dims, bool keepsDims) {
  Value sum = n.reduce(ps::ReductionKind::Sum, n.widen(x), dims, keepsDims);
  return n.convert(n.divide(sum, double(countElements(x, dims))), getElement(x));
}

Value buildLogSumExp(TensorBuilder &n, Value x, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> order, rows, reduced(dims);
  for (int64_t dim = 0; dim < getRank(x); ++dim)
    if (!llvm::is_contained(dims, dim))
      order.push_back(dim);
  for (int64_t dim : order)
    rows.push_back(getShape(x)[dim]);
  llvm::sort(reduced);
  llvm::append_range(order, reduced);
  SmallVector<int64_t> shape(rows);
  shape.push_back(countElements(x, dims));
  Value logits = n.reshape(n.transpose(x, order), shape);
  constexpr int64_t kIgnored = -100;
  Value labels = n.splat(RankedTensorType::get(rows, n.i64()), kIgnored);
  return n.convert(n.make<ps::CrossEntropyOp>(logits, labels, kIgnored).getLse(), getElement(x));
}

} // namespace parashard::import
