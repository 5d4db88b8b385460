// Converts sorts, and ops that take elements by their order: topk, kthvalue, median.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Dims.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Returns the dim that an op sorts along. As in PyTorch, dims 0 and -1 are valid for a scalar.
std::optional<int64_t> findSortedDim(NodeConverter &n, Value x) {
  if (n.failed())
    return std::nullopt;
  return findDim(n, "dim", std::max<int64_t>(1, getRank(x)), -1);
}

/// Defines the results that are used.
LogicalResult setSorted(NodeConverter &n, const Sorted &sorted) {
  if (n.failed() || (n.isUsed(0) && failed(n.set(0, sorted.values))))
    return failure();
  return n.isUsed(1) ? n.set(1, sorted.indices) : success();
}

LogicalResult convertSort(NodeConverter &n) {
  Value x = n.tensor("self");
  std::optional<int64_t> dim = findSortedDim(n, x);
  n.markWithoutEffect({"stable"}); // the sort is always stable
  return dim ? setSorted(n, buildSort(n, x, *dim, n.boolean("descending", false))) : failure();
}

LogicalResult convertArgsort(NodeConverter &n) {
  Value x = n.tensor("self");
  std::optional<int64_t> dim = findSortedDim(n, x);
  n.markWithoutEffect({"stable"});
  return dim ? n.set(buildSort(n, x, *dim, n.boolean("descending", false)).indices) : failure();
}

LogicalResult convertTopK(NodeConverter &n) {
  Value x = n.tensor("self");
  std::optional<int64_t> dim = findSortedDim(n, x);
  int64_t count = n.integer("k");
  n.markWithoutEffect({"sorted"}); // the elements are always in order
  return dim ? setSorted(n, buildTopK(n, x, *dim, count, n.boolean("largest", true))) : failure();
}

/// Takes the elements at index `position` along the sorted dim. The results have the shapes of the
/// export.
LogicalResult setPosition(NodeConverter &n, const Sorted &sorted, int64_t dim, int64_t position) {
  n.markTypeOnly({"keepdim"});
  auto take = [&](unsigned result, Value value) {
    if (getRank(value) > 0)
      value = n.slice(value, dim, position, position + 1);
    return n.reshape(value, n.getResultType(result).getShape());
  };
  return setSorted(n, {take(0, sorted.values), take(1, sorted.indices)});
}

LogicalResult convertKthValue(NodeConverter &n) {
  Value x = n.tensor("self");
  std::optional<int64_t> dim = findSortedDim(n, x);
  int64_t k = n.integer("k");
  if (!dim || n.failed())
    return failure();
  int64_t size = getRank(x) == 0 ? 1 : getShape(x)[*dim];
  if (k < 1 || k > size)
    return n.fail("takes element " + Twine(k) + " of a dim of size " + Twine(size));
  return setPosition(n, buildSort(n, x, *dim, /*descending=*/false), *dim, k - 1);
}

/// Takes the lower of the two middle elements, or the first NaN. Sorts in descending order: the
/// first NaN is then element 0, and the lower median of `size` elements is element size / 2.
/// Example: 4 3 2 1 has the median 2.
LogicalResult convertMedian(NodeConverter &n) {
  Value x = n.tensor("self");
  std::optional<int64_t> dim = findSortedDim(n, x);
  if (!dim)
    return failure();
  int64_t size = getRank(x) == 0 ? 1 : getShape(x)[*dim];
  if (size == 0)
    return n.fail("is over a dim without elements");
  auto [values, indices] = buildSort(n, x, *dim, /*descending=*/true);
  if (!isFloat(x) || getRank(x) == 0)
    return setPosition(n, {values, indices}, *dim, size / 2);
  Value first = n.slice(values, *dim, 0, 1);
  Value isNan = n.compare(ps::Predicate::Ne, first, first);
  auto choose = [&](Value sorted) -> Value {
    Value middle = n.slice(sorted, *dim, size / 2, size / 2 + 1);
    return n.make<ps::SelectOp>(isNan, n.slice(sorted, *dim, 0, 1), middle);
  };
  return setPosition(n, {choose(values), choose(indices)}, *dim, 0);
}

} // namespace

void addSortConverters(ConverterTable &table) {
  table["aten.sort"] = convertSort;
  table["aten.argsort"] = convertArgsort;
  table["aten.topk"] = convertTopK;
  table["aten.kthvalue"] = convertKthValue;
  table["aten.median.dim"] = convertMedian;
}

} // namespace parashard::import
