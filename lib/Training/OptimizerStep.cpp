// Builds the arithmetic of one optimizer step from elementwise ops.
#include "OptimizerStep.h"
#include "lib/IR/Symbols.h"
#include <cmath>

using namespace mlir;
using namespace parashard;
using namespace parashard::training;
using namespace parashard::ir;
using namespace parashard::ps;

static RankedTensorType getType(Value value) { return cast<RankedTensorType>(value.getType()); }

Value Arithmetic::constant(Value like, double value) {
  return makeConstant(builder, loc, getType(like), value);
}

Value Arithmetic::convert(Value value, Type element) {
  return makeConvert(builder, loc, value, element);
}

Value Arithmetic::spread(Value scalar, Value like) {
  scalar = convert(scalar, getType(like).getElementType());
  if (getType(like).getRank() == 0)
    return scalar;
  return BroadcastOp::create(builder, loc, like.getType(), scalar, llvm::ArrayRef<int64_t>{});
}

Value Arithmetic::spreadBool(Value scalar, Value like) {
  if (getType(like).getRank() == 0)
    return scalar;
  auto type = RankedTensorType::get(getType(like).getShape(), builder.getI1Type());
  return BroadcastOp::create(builder, loc, type, scalar, llvm::ArrayRef<int64_t>{});
}

Value Arithmetic::compare(Predicate predicate, Value x, Value y) {
  auto type = RankedTensorType::get(getType(x).getShape(), builder.getI1Type());
  return CompareOp::create(builder, loc, type, predicate, x, y);
}

Value Arithmetic::select(Value condition, Value x, Value y) {
  return SelectOp::create(builder, loc, x.getType(), condition, x, y);
}

Value training::makeBiasCorrection(Arithmetic &math, Value step, double beta) {
  if (beta == 0)
    return math.constant(step, 1);
  Value y = math.scale(step, std::log(beta));
  Value one = math.constant(y, 1), series = one;
  for (int n = 8; n >= 2; --n) // 1 + y/2 (1 + y/3 (...))
    series = math.add(one, math.mul(math.scale(y, 1.0 / n), series));
  Value small = math.unary<NegOp>(math.mul(series, y));
  Value large = math.sub(one, math.unary<ExpOp>(y));
  return math.select(math.compare(Predicate::Gt, y, math.constant(y, -0.5)), small, large);
}

GroupScalars training::makeGroupScalars(Arithmetic &math, const OptimizerSpec &spec, Value lr,
                                        Value count) {
  GroupScalars group{lr, count, {}, {}, {}, {}};
  if (spec.rule == OptimizerSpec::Rule::SGD)
    return group;
  Value step = math.add(count, math.constant(count, 1));
  group.stepSize = math.div(lr, makeBiasCorrection(math, step, spec.beta1));
  group.root = math.unary<SqrtOp>(makeBiasCorrection(math, step, spec.beta2));
  if (spec.rule == OptimizerSpec::Rule::AdamW && spec.weightDecay != 0)
    group.decayFactor = math.sub(math.constant(lr, 1), math.scale(lr, spec.weightDecay));
  return group;
}

llvm::SmallVector<std::string> training::getStateNames(const OptimizerSpec &spec) {
  switch (spec.rule) {
  case OptimizerSpec::Rule::SGD:
    return spec.momentum == 0 ? llvm::SmallVector<std::string>{}
                              : llvm::SmallVector<std::string>{"sgd.momentum"};
  case OptimizerSpec::Rule::Adam:
    return {"adam.mean", "adam.square"};
  case OptimizerSpec::Rule::AdamW:
    return {"adamw.mean", "adamw.square"};
  }
  llvm_unreachable("unknown optimizer rule");
}

/// Builds a step as in torch.optim.SGD. In the first step, the momentum is set to the gradient,
/// without dampening.
static StepResult makeSGD(Arithmetic &math, const OptimizerSpec &spec, const GroupScalars &group,
                          Value parameter, Value gradient, llvm::ArrayRef<Value> state) {
  if (spec.weightDecay != 0)
    gradient = math.add(gradient, math.scale(parameter, spec.weightDecay));
  StepResult result;
  Value direction = gradient;
  if (spec.momentum != 0) {
    Value added = spec.dampening == 0 ? gradient : math.scale(gradient, 1 - spec.dampening);
    Value momentum = math.add(math.scale(state[0], spec.momentum), added);
    if (spec.dampening != 0) {
      Value zero = math.constant(group.count, 0);
      Value isFirst = math.compare(Predicate::Eq, group.count, zero);
      momentum = math.select(math.spreadBool(isFirst, gradient), gradient, momentum);
    }
    direction = spec.nesterov ? math.add(gradient, math.scale(momentum, spec.momentum)) : momentum;
    result.state = {momentum};
  }
  result.parameter = math.sub(parameter, math.mul(math.spread(group.lr, parameter), direction));
  return result;
}

/// Builds a step as in torch.optim.Adam or AdamW. Adam adds the weight decay to the gradient. AdamW
/// first multiplies the parameter by `decayFactor`.
static StepResult makeAdam(Arithmetic &math, const OptimizerSpec &spec, const GroupScalars &group,
                           Value parameter, Value gradient, llvm::ArrayRef<Value> state) {
  if (group.decayFactor)
    parameter = math.mul(parameter, math.spread(group.decayFactor, parameter));
  else if (spec.weightDecay != 0)
    gradient = math.add(gradient, math.scale(parameter, spec.weightDecay));
  Value mean = math.add(state[0], math.scale(math.sub(gradient, state[0]), 1 - spec.beta1));
  Value square = math.add(math.scale(state[1], spec.beta2),
                          math.scale(math.mul(gradient, gradient), 1 - spec.beta2));
  Value root = math.div(math.unary<SqrtOp>(square), math.spread(group.root, square));
  Value denominator = math.add(root, math.constant(root, spec.eps));
  Value change = math.mul(math.spread(group.stepSize, parameter), math.div(mean, denominator));
  return {math.sub(parameter, change), {mean, square}};
}

StepResult training::makeStep(Arithmetic &math, const OptimizerSpec &spec,
                              const GroupScalars &group, Value parameter, Value gradient,
                              llvm::ArrayRef<Value> state) {
  if (spec.rule == OptimizerSpec::Rule::SGD)
    return makeSGD(math, spec, group, parameter, gradient, state);
  return makeAdam(math, spec, group, parameter, gradient, state);
}
