// Builds sorts, and the largest or smallest elements along a dim.
#include "lib/Import/BuildOps.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {

Sorted buildSort(TensorBuilder &n, Value x, int64_t dim, bool descending) {
  bool isScalar = getRank(x) == 0;
  if (isScalar)
    x = n.reshape(x, {1});
  auto sort = n.make<ps::SortOp>(x.getType(), n.typeLike(x, n.i64()), x, dim, descending);
  if (!isScalar)
    return {sort.getValues(), sort.getIndices()};
  return {n.reshape(sort.getValues(), {}), n.reshape(sort.getIndices(), {})};
}

Sorted buildTopK(TensorBuilder &n, Value x, int64_t dim, int64_t count, bool largest) {
  bool isScalar = getRank(x) == 0;
  int64_t size = isScalar ? 1 : getShape(x)[dim];
  if (count < 0 || count > size) {
    (void)n.fail("takes " + describeCount(count, "element") + " of a dim of size " + Twine(size));
    return {x, x};
  }
  if (isScalar)
    x = n.reshape(x, {1});
  auto [values, indices] = buildSort(n, x, dim, largest);
  Sorted first{n.slice(values, dim, 0, count), n.slice(indices, dim, 0, count)};
  if (!isScalar || count == 0)
    return first;
  return {n.reshape(first.values, {}), n.reshape(first.indices, {})};
}

} // namespace parashard::import
