// Converts TopK.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

LogicalResult convertTopK(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> count = n.integersInput(1);
  n.markWithoutEffect({"sorted"}); // the result is always sorted
  if (n.failed())
    return failure();
  if (count.size() != 1)
    return n.fail("needs K with exactly one element");
  int64_t axis = n.axis(-1, getRank(x));
  if (n.failed())
    return failure();
  auto [values, indices] = buildTopK(n, x, axis, count[0], n.integer("largest", 1) != 0);
  if (n.failed() || failed(n.set(0, values)))
    return failure();
  return n.set(1, indices);
}

} // namespace

void addOnnxSortConverters(OnnxConverterTable &table) { table["TopK"] = convertTopK; }

} // namespace parashard::import
