// Replaces expressions of activations, such as SiLU as x / (1 + exp(-x)), by activation ops. Since
// an activation can be written in many ways, expressions are compared by their values.
#include "lib/Import/Recognize/Matching.h"
#include "parashard/Import.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>

using namespace mlir;

namespace parashard::import {
namespace {
using namespace recognize;

/// Maximum number of ops in an expression.
constexpr size_t kMaxOps = 32;

/// Returns the points at which functions are compared. Small and large numbers are included, to
/// detect a clamped function.
ArrayRef<double> getPoints() {
  static const std::vector<double> points = [] {
    std::vector<double> result = {0};
    double x = 1e-6;
    while (x < 1e9) {
      result.insert(result.end(), {x, -x});
      x *= x < 0.05 || x > 20 ? 10 : 1.25;
    }
    return result;
  }();
  return points;
}

bool isTranscendental(Operation *op) {
  return isa<ps::TanhOp, ps::ErfOp, ps::ExpOp, ps::SigmoidOp>(op);
}

/// Returns true for elementwise ops whose operands are splats or have the shape of the result.
/// Excludes stop_gradient: `x * stop_gradient(sigmoid(x))` has the values of SiLU, but not its
/// derivative.
bool isElementwise(Operation *op) {
  auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
  return lowering && lowering.getLoweringKind() == ps::LoweringKind::Elementwise &&
         isa<ps::EvaluateOpInterface>(op) &&
         !isa<ps::RandomOpInterface, ps::ByModeOp, ps::StopGradientOp>(op) &&
         op->getNumResults() == 1 && op->getNumOperands() > 0 &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           auto type = dyn_cast<RankedTensorType>(operand.getType());
           return type && (getSplat(operand) || type.getShape() == getShape(op->getResult(0)));
         });
}

/// An elementwise expression that computes the result of `root`. It grows backward from `root`, op
/// by op, until it depends on only one value.
class Expression {
public:
  explicit Expression(Operation *root) : root(root) { open.insert(root->getResult(0)); }

  /// Adds one op to the expression: the last op in the block that defines a value of `open`.
  /// Returns false if no op can be added, if the expression already has `kMaxOps` ops, or if more
  /// ops cannot reduce it to one value.
  bool grow() {
    Operation *last = nullptr;
    int ends = 0;
    for (Value value : open) {
      Operation *op = value.getDefiningOp();
      if (!op || op->getBlock() != root->getBlock() || !isElementwise(op))
        ++ends;
      else if (!last || last->isBeforeInBlock(op))
        last = op;
    }
    if (!last || ends > 1 || ops.size() == kMaxOps)
      return false;
    open.remove(last->getResult(0));
    ops.push_back(last);
    hasTranscendental |= isTranscendental(last);
    for (Value operand : last->getOperands())
      if (!getSplat(operand))
        open.insert(operand);
    return true;
  }

  /// Returns the only value that the expression depends on, or null if there are several.
  Value getArgument() const { return open.size() == 1 ? open.front() : Value(); }
  /// Returns true if the expression has several ops, contains a transcendental op, and depends on
  /// only one value, which has the type of the result.
  bool isCandidate() const {
    return ops.size() > 1 && hasTranscendental && getArgument() &&
           getArgument().getType() == root->getResult(0).getType();
  }

  /// Returns the values at `getPoints()` in f64, or nullopt if an op cannot be evaluated.
  std::optional<ps::Tensor> evaluate() const;

private:
  Operation *root;
  llvm::SetVector<Value> open;  ///< values that the expression reads, except splats
  SmallVector<Operation *> ops; ///< ops of the expression, in reverse order
  bool hasTranscendental = false;
};

ps::Tensor makeTensor(Type element, llvm::function_ref<double(int64_t)> value) {
  auto count = int64_t(getPoints().size());
  ps::Tensor result(RankedTensorType::get({count}, element));
  for (int64_t i = 0; i < count; ++i)
    result.set(i, value(i));
  return result;
}

/// Returns f64 for floats, so that rounding errors do not hide differences between functions.
Type widen(Type element) {
  return isa<FloatType>(element) ? Float64Type::get(element.getContext()) : element;
}

std::optional<ps::Tensor> Expression::evaluate() const {
  DenseMap<Value, ps::Tensor> known;
  known[getArgument()] =
      makeTensor(Float64Type::get(root->getContext()), [](int64_t i) { return getPoints()[i]; });
  auto count = int64_t(getPoints().size());
  for (Operation *op : llvm::reverse(ops)) {
    SmallVector<ps::Tensor> operands;
    for (Value operand : op->getOperands()) {
      std::optional<double> splat = getSplat(operand);
      operands.push_back(splat ? makeTensor(widen(getType(operand).getElementType()),
                                            [&](int64_t) { return *splat; })
                               : known.at(operand));
    }
    Operation *clone = op->clone(); // the clone has another number of elements
    Type element = widen(getType(op->getResult(0)).getElementType());
    clone->getResult(0).setType(RankedTensorType::get({count}, element));
    auto results = cast<ps::EvaluateOpInterface>(clone).evaluate(operands, {});
    clone->destroy();
    if (failed(results))
      return std::nullopt;
    known[op->getResult(0)] = std::move((*results)[0]);
  }
  return known.at(root->getResult(0));
}

//===--- The activations --------------------------------------------------===//

struct Activation {
  double (*value)(double);
  void (*replace)(OpBuilder &b, Operation *op, Value argument);
};

template <ps::GeluKind kind> void makeGelu(OpBuilder &b, Operation *op, Value argument) {
  Value activation = ps::GeluOp::create(b, op->getLoc(), argument.getType(), kind, argument);
  op->getResult(0).replaceAllUsesWith(activation);
}

void makeSilu(OpBuilder &b, Operation *op, Value argument) {
  Value activation = ps::SiluOp::create(b, op->getLoc(), argument.getType(), argument);
  op->getResult(0).replaceAllUsesWith(activation);
}

const Activation kActivations[] = {
    {[](double x) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }, makeGelu<ps::GeluKind::Erf>},
    {[](double x) {
       return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     },
     makeGelu<ps::GeluKind::Tanh>},
    {[](double x) { return x / (1 + std::exp(-x)); }, makeSilu}};

/// Returns true if an expression has the values of an activation. The tolerance allows for
/// constants rounded to f32, and distinguishes erf-GELU from tanh-GELU, which differ by up to 5e-4.
bool isEqual(const ps::Tensor &found, const Activation &activation) {
  for (auto [i, x] : llvm::enumerate(getPoints()))
    if (!(std::fabs(found.get(int64_t(i)) - activation.value(x)) <= 4e-7 * (1 + std::fabs(x))))
      return false;
  return true;
}

/// Replaces the result of `op` by an activation op, if `op` is the last op of an activation's
/// expression.
bool tryToReplace(Operation *op) {
  Expression expression(op);
  while (expression.grow()) {
    if (!expression.isCandidate())
      continue;
    std::optional<ps::Tensor> values = expression.evaluate();
    for (const Activation &activation : kActivations)
      if (values && isEqual(*values, activation)) {
        OpBuilder b(op);
        activation.replace(b, op, expression.getArgument());
        return true;
      }
  }
  return false;
}

} // namespace

int64_t recognizeActivations(ModuleOp module) {
  SmallVector<Operation *> ends, replaced;
  module.walk([&](Operation *op) {
    if (isa<ps::MulOp, ps::DivOp>(op) && isElementwise(op))
      ends.push_back(op);
  });
  for (Operation *op : llvm::reverse(ends))
    if (tryToReplace(op))
      replaced.push_back(op);
  for (Operation *op : replaced)
    eraseDead(op);
  return int64_t(replaced.size());
}

} // namespace parashard::import
