// Evaluates constant expressions with `EvaluateOpInterface`, and builds compact constants.
#include "lib/Import/HostValue.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Maximum number of steps of `evaluateOnHost`. The importer may call this function for every node,
/// so the limit keeps import time linear in the number of nodes.
constexpr unsigned kMaxSteps = 1 << 10;
/// Maximum number of elements of all visited values together.
constexpr int64_t kMaxInAll = 32 * kMaxHostElements;
/// Maximum flops of a matmul, which is evaluated by naive loops.
constexpr int64_t kMaxFlops = int64_t(1) << 30;

bool isLittleWork(Operation *op) {
  auto cost = dyn_cast<ps::CostOpInterface>(op);
  return !cost ||
         cost.getCost(op->getOperandTypes(), op->getResultTypes()).contractionFlops <= kMaxFlops;
}

/// Evaluates a value and its operands. Uses an explicit stack, since chains of ops may be too long
/// for recursion.
class HostEvaluator {
public:
  std::optional<ps::Tensor> evaluate(Value value) {
    SmallVector<Value> stack{value};
    for (unsigned steps = 0; !stack.empty(); ++steps) {
      if (steps > kMaxSteps)
        return std::nullopt;
      Value next = stack.back();
      if (known.contains(next)) {
        stack.pop_back();
      } else if (!isCandidate(next)) {
        return std::nullopt;
      } else if (!pushOperands(next, stack)) {
        if (!evaluateOp(next))
          return std::nullopt;
      }
    }
    return known.find(value)->second;
  }

private:
  /// Returns true if the op of `value` may be evaluated. Reads and random ops are not constant. Max
  /// pooling is excluded, because its work is not bounded by its number of elements.
  static bool isCandidate(Value value) {
    return value.getDefiningOp<ps::EvaluateOpInterface>() &&
           getType(value).getNumElements() <= kMaxHostElements &&
           !isa<ps::ReadOp, ps::DropoutOp, ps::MaxPoolOp>(value.getDefiningOp());
  }

  bool pushOperands(Value value, SmallVectorImpl<Value> &stack) const {
    size_t before = stack.size();
    for (Value operand : value.getDefiningOp()->getOperands())
      if (!known.contains(operand))
        stack.push_back(operand);
    return stack.size() > before;
  }

  bool evaluateOp(Value value) {
    Operation *op = value.getDefiningOp();
    if (failed(verify(op)) || !isLittleWork(op)) // the op has not been verified yet
      return false;
    std::vector<ps::Tensor> operands;
    for (Value operand : op->getOperands())
      operands.push_back(known.find(operand)->second);
    auto results = cast<ps::EvaluateOpInterface>(op).evaluate(operands, ps::EvaluateContext());
    if (failed(results))
      return false;
    ps::Tensor &result = (*results)[cast<OpResult>(value).getResultNumber()];
    elements += result.size();
    known.try_emplace(value, std::move(result));
    return elements <= kMaxInAll;
  }

  llvm::DenseMap<Value, ps::Tensor> known;
  int64_t elements = 0;
};

/// Drops the dims along which the tensor does not change. Sets `kept` to the other dims. Example:
/// [[1, 2], [1, 2]] becomes [1, 2], and kept is {1}.
ps::Tensor dropUniformDims(const ps::Tensor &tensor, SmallVector<int64_t> &kept) {
  SmallVector<int64_t> strides = tensor.getStrides(), shape;
  for (int64_t dim = 0; dim < tensor.getRank(); ++dim) {
    bool uniform = true; // skips dims of size 1: a tensor may have thousands of them
    for (int64_t i = 0; tensor.getShape()[dim] > 1 && i < tensor.size() && uniform; ++i) {
      int64_t first = i - (i / strides[dim] % tensor.getShape()[dim]) * strides[dim];
      uniform = tensor.get(i) == tensor.get(first);
    }
    if (uniform)
      continue;
    kept.push_back(dim);
    shape.push_back(tensor.getShape()[dim]);
  }
  ps::Tensor out(tensor.getType().clone(shape));
  for (int64_t i = 0; i < out.size(); ++i) {
    SmallVector<int64_t> index(tensor.getRank(), 0), from = out.delinearize(i);
    for (auto [dim, at] : llvm::zip(kept, from))
      index[dim] = at;
    out.isFloat() ? out.set(i, tensor.get(tensor.linearize(index)))
                  : out.setInt(i, tensor.getInt(tensor.linearize(index)));
  }
  return out;
}

/// Returns true if a 1-dim tensor of at least 3 integers has the form start + step * index.
bool isProgression(const ps::Tensor &tensor) {
  if (tensor.getRank() != 1 || tensor.isFloat() || tensor.getType().getElementType().isInteger(1) ||
      tensor.size() < 3)
    return false;
  int64_t step = tensor.getInt(1) - tensor.getInt(0);
  for (int64_t i = 1; i < tensor.size(); ++i)
    if (tensor.getInt(i) - tensor.getInt(i - 1) != step)
      return false;
  return true;
}

Value buildElements(TensorBuilder &n, const ps::Tensor &tensor) {
  if (!isProgression(tensor))
    return n.make<ps::ConstantOp>(tensor.toAttr());
  int64_t start = tensor.getInt(0), step = tensor.getInt(1) - start;
  Value value = n.make<ps::IotaOp>(tensor.getType(), 0);
  if (step != 1)
    value = n.make<ps::MulOp>(value, n.splat(tensor.getType(), double(step)));
  return start ? Value(n.make<ps::AddOp>(value, n.splat(tensor.getType(), double(start)))) : value;
}

DenseElementsAttr buildIntegerSplat(RankedTensorType type, const ps::Tensor &value) {
  unsigned width = type.getElementType().getIntOrFloatBitWidth();
  return DenseElementsAttr::get(
      type, llvm::APInt(width, value.getInt(0), /*isSigned=*/true, /*implicitTrunc=*/true));
}

} // namespace

std::optional<ps::Tensor> evaluateOnHost(Value value) { return HostEvaluator().evaluate(value); }

bool dependsOnTrained(Value value) {
  llvm::SetVector<Operation *> seen;
  auto add = [&](Value v) {
    if (Operation *op = v.getDefiningOp(); op && isFloat(v) && !isa<ps::StopGradientOp>(op))
      seen.insert(op);
  };
  add(value);
  for (unsigned i = 0; i < seen.size(); ++i) {
    if (auto read = dyn_cast<ps::ReadOp>(seen[i])) {
      auto variable = read->getParentOfType<ModuleOp>().lookupSymbol<ps::VariableOp>(
          read.getVariableAttr().getAttr());
      if (variable && variable.getKind() == ps::VariableKind::Parameter && !variable.getFrozen())
        return true;
    }
    llvm::for_each(seen[i]->getOperands(), add);
  }
  return false;
}

Value stopGradient(OpBuilder &builder, Location loc, Value value) {
  if (!isFloat(value) || !dependsOnTrained(value))
    return value;
  return ps::StopGradientOp::create(builder, loc, value.getType(), value);
}

Value buildHostConstant(TensorBuilder &n, const ps::Tensor &tensor) {
  if (tensor.size() == 0)
    return n.splat(tensor.getType(), 0);
  SmallVector<int64_t> kept;
  ps::Tensor core = dropUniformDims(tensor, kept);
  if (kept.empty()) // a splat; the largest integers cannot be represented as doubles
    return tensor.isFloat() ? n.splat(tensor.getType(), core.get(0))
                            : n.make<ps::ConstantOp>(buildIntegerSplat(tensor.getType(), core));
  Value value = buildElements(n, core);
  if (int64_t(kept.size()) == tensor.getRank())
    return value;
  return n.make<ps::BroadcastOp>(tensor.getType(), value, kept);
}

} // namespace parashard::import
