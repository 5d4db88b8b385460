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

Value training::makeBiasCorrection(Arithmetic &math, Value step, Value logBeta) {
  Value y = math.mul(step, logBeta);
  Value one = math.constant(y, 1), series = one;
  for (int n = 8; n >= 2; --n) // 1 + y/2 (1 + y/3 (...))
    series = math.add(one, math.mul(math.scale(y, 1.0 / n), series));
  Value small = math.unary<NegOp>(math.mul(series, y));
  Value large = math.sub(one, math.unary<ExpOp>(y));
  return math.select(math.compare(Predicate::Gt, y, math.constant(y, -0.5)), small, large);
}

llvm::ArrayRef<ScalarForm> training::getScalarForms() {
  static constexpr ScalarForm kForms[kScalarForms] = {
      {"", [](double x) { return x; }},
      {"one_minus", [](double x) { return 1 - x; }},
      {"log", [](double x) { return std::log(x); }}};
  return kForms;
}

llvm::SmallVector<Hyperparameter> training::getHyperparameters(const OptimizerSpec &spec) {
  using Spec = OptimizerSpec;
  using Group = GroupScalars;
  static constexpr Hyperparameter kOfSGD[] = {
      {"lr", &Spec::lr, false, {&Group::lr}},
      {"weight_decay", &Spec::weightDecay, true, {&Group::weightDecay}},
      {"momentum", &Spec::momentum, true, {&Group::momentum}}};
  static constexpr Hyperparameter kOfAdam[] = {
      {"lr", &Spec::lr, false, {&Group::lr}},
      {"weight_decay", &Spec::weightDecay, true, {&Group::weightDecay}},
      {"beta1", &Spec::beta1, false, {nullptr, &Group::meanShare, &Group::logBeta1}},
      {"beta2", &Spec::beta2, false, {&Group::beta2, &Group::squareShare, &Group::logBeta2}}};
  llvm::ArrayRef<Hyperparameter> all = kOfAdam;
  if (spec.rule == Spec::Rule::SGD)
    all = kOfSGD;
  return llvm::filter_to_vector(all, [&](const Hyperparameter &hyperparameter) {
    return !hyperparameter.isOmittedAtZero || spec.*hyperparameter.initial != 0;
  });
}

void training::completeGroupScalars(Arithmetic &math, const OptimizerSpec &spec,
                                    GroupScalars &group) {
  Type f32 = math.builder.getF32Type();
  group.lr = math.convert(group.lr, f32);
  if (spec.rule == OptimizerSpec::Rule::SGD)
    return;
  auto correct = [&, step = math.add(group.count, math.constant(group.count, 1))](Value logBeta) {
    return makeBiasCorrection(math, step, math.convert(logBeta, f32));
  };
  group.stepSize = math.div(group.lr, correct(group.logBeta1));
  group.root = math.unary<SqrtOp>(correct(group.logBeta2));
  if (spec.rule == OptimizerSpec::Rule::AdamW && group.weightDecay)
    group.decayFactor = math.sub(math.constant(group.lr, 1),
                                 math.mul(group.lr, math.convert(group.weightDecay, f32)));
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
  if (group.weightDecay)
    gradient = math.add(gradient, math.scale(parameter, group.weightDecay));
  StepResult result;
  Value direction = gradient;
  if (group.momentum) {
    Value added = spec.dampening == 0 ? gradient : math.scale(gradient, 1 - spec.dampening);
    Value momentum = math.add(math.scale(state[0], group.momentum), added);
    if (spec.dampening != 0) {
      Value zero = math.constant(group.count, 0);
      Value isFirst = math.compare(Predicate::Eq, group.count, zero);
      momentum = math.select(math.spreadBool(isFirst, gradient), gradient, momentum);
    }
    direction = spec.nesterov ? math.add(gradient, math.scale(momentum, group.momentum)) : momentum;
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
  else if (group.weightDecay)
    gradient = math.add(gradient, math.scale(parameter, group.weightDecay));
  Value mean = math.add(state[0], math.scale(math.sub(gradient, state[0]), group.meanShare));
  Value square = math.add(math.scale(state[1], group.beta2),
                          math.scale(math.mul(gradient, gradient), group.squareShare));
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
