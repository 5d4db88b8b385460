// Converts reductions over dims, argmax and argmin.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Returns the dims that a node reduces. If the node specifies no dims, returns all dims, or no
/// dims if `noop_with_empty_axes` is set.
SmallVector<int64_t> getDims(OnnxNode &n, Value x) {
  SmallVector<int64_t> dims = wrapDims(n.integersOf("axes", 1), getRank(x));
  bool emptyIsNone = n.integer("noop_with_empty_axes", 0);
  if (dims.empty() && !emptyIsNone)
    dims = llvm::to_vector(llvm::seq<int64_t>(0, getRank(x)));
  if (llvm::any_of(dims, [&](int64_t dim) { return dim < 0 || dim >= getRank(x); }))
    (void)n.fail("reduces a dim that the operand does not have");
  return dims;
}

Value none(OnnxNode &, Value x) { return x; }
Value absolute(OnnxNode &n, Value x) { return n.make<ps::AbsOp>(x); }
Value square(OnnxNode &n, Value x) { return n.make<ps::MulOp>(x, x); }
Value logarithm(OnnxNode &n, Value x) { return n.make<ps::LogOp>(x); }
Value root(OnnxNode &n, Value x) { return n.make<ps::SqrtOp>(x); }

/// Converts a reduction: applies `kBefore` to each element and `kAfter` to the results.
template <ps::ReductionKind kKind, Value (*kBefore)(OnnxNode &, Value) = none,
          Value (*kAfter)(OnnxNode &, Value) = none>
LogicalResult convertReduce(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  SmallVector<int64_t> dims = getDims(n, x);
  if (n.failed())
    return failure();
  return n.set(kAfter(n, n.reduce(kKind, kBefore(n, x), dims, n.integer("keepdims", 1))));
}

LogicalResult convertMean(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  SmallVector<int64_t> dims = getDims(n, x);
  if (n.failed())
    return failure();
  return n.set(buildMean(n, x, dims, n.integer("keepdims", 1)));
}

LogicalResult convertLogSumExp(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  SmallVector<int64_t> dims = getDims(n, x), shape;
  if (n.failed())
    return failure();
  bool keepsDims = n.integer("keepdims", 1) != 0;
  for (auto [dim, size] : llvm::enumerate(getShape(x)))
    if (!llvm::is_contained(dims, int64_t(dim)))
      shape.push_back(size);
    else if (keepsDims)
      shape.push_back(1);
  Value sums = n.convert(buildLogSumExp(n, n.widen(x), dims), getElement(x));
  return n.failed() ? failure() : n.set(n.reshape(sums, shape));
}

LogicalResult convertProduct(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  SmallVector<int64_t> dims = getDims(n, x), shape(getShape(x));
  if (n.failed())
    return failure();
  for (int64_t dim : dims)
    x = buildProduct(n, x, dim);
  return n.set(n.reduce(ps::ReductionKind::Sum, x, dims, n.integer("keepdims", 1)));
}

template <ps::ReductionKind kKind> LogicalResult convertExtremumIndex(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  if (n.integer("select_last_index", 0))
    return n.fail("has select_last_index = 1, which is not supported");
  int64_t dim = n.axis(0, getRank(x));
  if (n.failed())
    return failure();
  Value index = findExtremumIndex(n, x, dim, kKind);
  return n.set(n.reduce(ps::ReductionKind::Sum, index,
                        n.integer("keepdims", 1) ? SmallVector<int64_t>() : SmallVector{dim},
                        false));
}

} // namespace

void addOnnxReductionConverters(OnnxConverterTable &table) {
  table["ReduceSum"] = convertReduce<ps::ReductionKind::Sum>;
  table["ReduceMax"] = convertReduce<ps::ReductionKind::Max>;
  table["ReduceMin"] = convertReduce<ps::ReductionKind::Min>;
  table["ReduceL1"] = convertReduce<ps::ReductionKind::Sum, absolute>;
  table["ReduceL2"] = convertReduce<ps::ReductionKind::Sum, square, root>;
  table["ReduceSumSquare"] = convertReduce<ps::ReductionKind::Sum, square>;
  table["ReduceLogSum"] = convertReduce<ps::ReductionKind::Sum, none, logarithm>;
  table["ReduceLogSumExp"] = convertLogSumExp;
  table["ReduceMean"] = convertMean;
  table["ReduceProd"] = convertProduct;
  table["ArgMax"] = convertExtremumIndex<ps::ReductionKind::Max>;
  table["ArgMin"] = convertExtremumIndex<ps::ReductionKind::Min>;
}

} // namespace parashard::import
