// Implements the sort along a dim, and its gradient.
#include "dialects/ps/Ps.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace parashard::ps;

static LogicalResult verifySort(Operation *op, RankedTensorType type, RankedTensorType indices,
                                int64_t dim) {
  if (dim < 0 || dim >= type.getRank())
    return op->emitOpError("has no dim ") << dim << " in " << type << " (sort_c1)";
  if (indices.getShape() != type.getShape())
    return op->emitOpError("indices have type ")
           << indices << ", expected shape [" << type.getShape() << "] (sort_c2)";
  return success();
}

/// Returns the sharding rule of an op whose operands and results all have the shape of `type`. The
/// rule does not allow a split of `dim`.
static ShardingRule makeRule(RankedTensorType type, int64_t dim, unsigned operands,
                             unsigned results) {
  ShardingRule rule = ShardingRule::elementwise(type.getShape(), operands, results);
  RuleFactor &factor = rule.factors[dim];
  factor.kind = RuleFactor::Kind::Whole;
  factor.reason = "a sort compares all elements of the dim";
  return rule;
}

namespace {
/// The rows along a dim: element k of row r is at `first(r) + k * stride`.
struct Rows {
  int64_t count, size, stride;
  Rows(RankedTensorType type, int64_t dim) : size(type.getDimSize(dim)) {
    stride = llvm::product_of(type.getShape().drop_front(dim + 1));
    count = size ? type.getNumElements() / size : 0;
  }
  int64_t first(int64_t row) const { return row / stride * size * stride + row % stride; }
};
} // namespace

//===----------------------------------------------------------------------===//
// sort
//===----------------------------------------------------------------------===//

LogicalResult SortOp::verify() {
  return verifySort(*this, getTensorType(getOperand()), getTensorType(getIndices()), getDim());
}
LoweringKind SortOp::getLoweringKind() { return LoweringKind::Library; }

ShardingRule SortOp::getShardingRule() {
  return makeRule(getTensorType(getOperand()), getDim(), /*operands=*/1, /*results=*/2);
}

/// Counts one flop per element and level of a merge sort: log2(n) levels for a dim of size n.
OpCost SortOp::getCost(TypeRange operands, TypeRange results) {
  OpCost cost = elementwiseCost(operands, results);
  auto type = cast<RankedTensorType>(operands.front());
  auto size = std::max<int64_t>(1, type.getDimSize(getDim()));
  cost.otherFlops = type.getNumElements() * std::max<int64_t>(1, llvm::Log2_64_Ceil(size));
  return cost;
}

FailureOr<llvm::SmallVector<Tensor>> SortOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                      const EvaluateContext &) {
  const Tensor &x = operands[0];
  Tensor values(x.getType()), indices(getTensorType(getIndices()));
  Rows rows(x.getType(), getDim());
  auto isLess = [&](int64_t a, int64_t b) {
    if (!x.isFloat())
      return x.getInt(a) < x.getInt(b);
    return std::isnan(x.get(b)) ? !std::isnan(x.get(a)) : x.get(a) < x.get(b);
  };
  for (int64_t row = 0; row < rows.count; ++row) {
    std::vector<int64_t> order(rows.size);
    std::iota(order.begin(), order.end(), 0);
    auto at = [&](int64_t k) { return rows.first(row) + k * rows.stride; };
    llvm::stable_sort(order, [&](int64_t a, int64_t b) {
      return getDescending() ? isLess(at(b), at(a)) : isLess(at(a), at(b));
    });
    for (auto [k, from] : llvm::enumerate(order)) {
      indices.setInt(at(k), from);
      x.isFloat() ? values.set(at(k), x.get(at(from))) : values.setInt(at(k), x.getInt(at(from)));
    }
  }
  llvm::SmallVector<Tensor> results;
  results.push_back(std::move(values));
  results.push_back(std::move(indices));
  return results;
}

FailureOr<llvm::SmallVector<Value>> SortOp::differentiate(BackwardBuilder &builder,
                                                          ValueRange cotangents) {
  llvm::SmallVector<Value> answer(1);
  if (cotangents[0] && builder.needs(0))
    answer[0] = builder.make<SortGradOp>(cotangents[0], getIndices(), getDimAttr());
  return answer;
}

//===----------------------------------------------------------------------===//
// sort_grad
//===----------------------------------------------------------------------===//

LogicalResult SortGradOp::verify() {
  return verifySort(*this, getTensorType(getCotangent()), getTensorType(getIndices()), getDim());
}
LoweringKind SortGradOp::getLoweringKind() { return LoweringKind::Library; }

ShardingRule SortGradOp::getShardingRule() {
  ShardingRule rule =
      makeRule(getTensorType(getCotangent()), getDim(), /*operands=*/2, /*results=*/1);
  rule.linear = {{0}};
  return rule;
}

FailureOr<llvm::SmallVector<Tensor>> SortGradOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                          const EvaluateContext &) {
  Tensor result(getTensorType(getResult()));
  Rows rows(result.getType(), getDim());
  for (int64_t row = 0; row < rows.count; ++row)
    for (int64_t k = 0; k < rows.size; ++k) {
      int64_t from = rows.first(row) + k * rows.stride, to = operands[1].getInt(from);
      if (to >= 0 && to < rows.size)
        result.set(rows.first(row) + to * rows.stride, operands[0].get(from));
    }
  llvm::SmallVector<Tensor> results;
  results.push_back(std::move(result));
  return results;
}

//===----------------------------------------------------------------------===//
// Library calls
//===----------------------------------------------------------------------===//

static void addRows(CallBuilder &call, RankedTensorType type, int64_t dim) {
  Rows rows(type, dim);
  call.addType("dtype", type.getElementType());
  call.add("outer", llvm::product_of(type.getShape().take_front(dim)));
  call.add("size", rows.size);
  call.add("inner", rows.stride);
}

LogicalResult SortOp::emitCall(CallBuilder &call) {
  addRows(call, getTensorType(getOperand()), getDim());
  call.add("descending", getDescending());
  call.addBuffer("x", getOperand());
  call.addBuffer("indices", getIndices());
  call.addBuffer("out", getValues());
  return success();
}

LogicalResult SortGradOp::emitCall(CallBuilder &call) {
  addRows(call, getTensorType(getCotangent()), getDim());
  call.addBuffer("x", getCotangent());
  call.addBuffer("indices", getIndices());
  call.addBuffer("out", getResult());
  return success();
}
