// Implements the maximum over windows, and its gradient.
#include "dialects/ps/Windows.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace parashard::ps;

template <typename Op> static Windows getWindows(Op op, Type x, Type y) {
  return {getSpace(x), getSpace(y), op.getWindow(), op.getStrides(), op.getLow(), op.getDilation()};
}

static LogicalResult verifyPool(Operation *op, const Windows &windows, Type x, Type y) {
  if (failed(verifyWindows(op, windows, {x, y}, "max_pool_c1")))
    return failure();
  auto from = cast<RankedTensorType>(x), to = cast<RankedTensorType>(y);
  if (from.getShape().take_front(2) != to.getShape().take_front(2))
    return op->emitOpError("has tensors ")
           << from << " and " << to << ", expected equal batch sizes and channels (max_pool_c1)";
  for (unsigned d = 0; d < windows.getRank(); ++d) {
    int64_t begin = (windows.out[d] - 1) * windows.strides[d] - windows.low[d];
    int64_t end = (windows.kernel[d] - 1) * windows.dilation[d] - windows.low[d];
    if (begin >= windows.in[d] || end < 0)
      return op->emitOpError("has a window outside the ")
             << windows.in[d] << " elements along space dim " << d << " (max_pool_c2)";
  }
  if (from.getElementType() != to.getElementType())
    return op->emitOpError("element types are ")
           << from.getElementType() << " and " << to.getElementType()
           << "; they must be equal (max_pool_c3)";
  return success();
}

namespace {
/// The factors of x and y, which share batch and channels.
struct PoolFactors {
  ShardingRule rule;
  TensorFactors x, y;
  explicit PoolFactors(const Windows &windows, ArrayRef<int64_t> shape) {
    unsigned n = rule.addFactor(shape[0]), c = rule.addFactor(shape[1]);
    x = y = {{n}, {c}};
    addSpace(rule, x, windows.in);
    addSpace(rule, y, windows.out);
  }
};
} // namespace

/// Returns the index of the maximum in the window at `position`, or -1 if the window has no
/// element. The index is relative to `base`, where the plane (one channel of one sample) begins.
static int64_t findMaximum(const Tensor &x, int64_t base, const Windows &windows,
                           int64_t position) {
  int64_t found = -1;
  double best = -std::numeric_limits<double>::infinity();
  for (int64_t k = 0, taps = windows.getTaps(); k < taps; ++k) {
    int64_t index = windows.getElement(position, k);
    if (index < 0)
      continue;
    double value = x.get(base + index);
    if (found < 0 || value > best || std::isnan(value)) {
      found = index;
      best = value;
    }
  }
  return found;
}

//===----------------------------------------------------------------------===//
// max_pool
//===----------------------------------------------------------------------===//

LogicalResult MaxPoolOp::verify() {
  return verifyPool(*this, getWindows(*this, getOperand().getType(), getType()),
                    getOperand().getType(), getType());
}
LoweringKind MaxPoolOp::getLoweringKind() { return LoweringKind::Library; }

ShardingRule MaxPoolOp::getShardingRule() {
  auto type = cast<RankedTensorType>(getOperand().getType());
  PoolFactors f(getWindows(*this, type, getType()), type.getShape());
  f.rule.operands = {f.x};
  f.rule.results = {f.y};
  return f.rule;
}

FailureOr<llvm::SmallVector<Tensor>> MaxPoolOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                         const EvaluateContext &) {
  Windows windows = getWindows(*this, getOperand().getType(), getType());
  Tensor y(cast<RankedTensorType>(getType()));
  int64_t positions = windows.countPositions(), elements = windows.getElements();
  for (int64_t i = 0; i < y.size(); ++i) {
    int64_t base = i / positions * elements,
            at = findMaximum(operands[0], base, windows, i % positions);
    y.set(i, at < 0 ? -std::numeric_limits<double>::infinity() : operands[0].get(base + at));
  }
  llvm::SmallVector<Tensor> results;
  results.push_back(std::move(y));
  return results;
}

FailureOr<llvm::SmallVector<Value>> MaxPoolOp::differentiate(BackwardBuilder &builder,
                                                             ValueRange cotangents) {
  llvm::SmallVector<Value> answer(1);
  if (cotangents[0] && builder.needs(0))
    answer[0] = builder.make<MaxPoolGradOp>(cotangents[0], getOperand(), getWindow(), getStrides(),
                                            getLow(), getDilation());
  return answer;
}

//===----------------------------------------------------------------------===//
// max_pool_grad
//===----------------------------------------------------------------------===//

LogicalResult MaxPoolGradOp::verify() {
  Type x = getOperand().getType(), y = getCotangent().getType();
  return verifyPool(*this, getWindows(*this, x, y), x, y);
}
LoweringKind MaxPoolGradOp::getLoweringKind() { return LoweringKind::Library; }

ShardingRule MaxPoolGradOp::getShardingRule() {
  auto type = cast<RankedTensorType>(getOperand().getType());
  PoolFactors f(getWindows(*this, type, getCotangent().getType()), type.getShape());
  f.rule.operands = {f.y, f.x};
  f.rule.results = {f.x};
  f.rule.linear = {{0}};
  return f.rule;
}

FailureOr<llvm::SmallVector<Tensor>> MaxPoolGradOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                             const EvaluateContext &) {
  Windows windows = getWindows(*this, getOperand().getType(), getCotangent().getType());
  Tensor result(cast<RankedTensorType>(getType()));
  std::vector<double> sums(result.size());
  int64_t positions = windows.countPositions(), elements = windows.getElements();
  for (int64_t i = 0; i < operands[0].size(); ++i) {
    int64_t base = i / positions * elements;
    if (int64_t at = findMaximum(operands[1], base, windows, i % positions); at >= 0)
      sums[base + at] += operands[0].get(i);
  }
  for (int64_t i = 0; i < result.size(); ++i)
    result.set(i, sums[i]);
  llvm::SmallVector<Tensor> results;
  results.push_back(std::move(result));
  return results;
}

//===----------------------------------------------------------------------===//
// Library calls
//===----------------------------------------------------------------------===//

template <typename Op> static void addMaxPool(CallBuilder &call, Op op, Value x, Value y) {
  RankedTensorType type = getTensorType(x);
  call.addType("dtype", type.getElementType());
  call.add("planes", type.getDimSize(0) * type.getDimSize(1));
  call.addBuffer("x", x);
  call.addBuffer("y", y);
  addWindows(call, op, x, y, op.getWindow());
}

LogicalResult MaxPoolOp::emitCall(CallBuilder &call) {
  addMaxPool(call, *this, getOperand(), getResult());
  return success();
}

LogicalResult MaxPoolGradOp::emitCall(CallBuilder &call) {
  addMaxPool(call, *this, getOperand(), getCotangent());
  call.addBuffer("out", getResult());
  return success();
}
