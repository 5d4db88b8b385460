// ps-optimizer: adds the optimizer step of every trained parameter to @update.
#include "OptimizerStep.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/Parameters.h"
#include "lib/IR/Symbols.h"
#include "parashard/Training.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::training {

namespace {

/// A parameter that has a gradient, and the values that its optimizer step needs.
struct Trained {
  VariableOp parameter, gradient;
  unsigned group;
  Value mean; ///< gradient of the step's loss: the accumulated gradient divided by count and loss
              ///< scale
};

/// Builds the optimizer steps of all parameters.
class UpdateBuilder {
public:
  UpdateBuilder(ModuleOp module, func::FuncOp update, const OptimizerOptions &options)
      : module(module), variables(module), options(options),
        builder(update.getBody().front().getTerminator()), math(builder, update.getLoc()) {}

  LogicalResult build() {
    if (failed(parseSpecs()) || failed(findTrained()))
      return failure();
    readCount();
    readLossScale();
    for (Trained &trained : parameters)
      trained.mean = readGradient(trained);
    if (lossScale && failed(skipUnlessFinite()))
      return failure();
    if (options.clipNorm > 0 && failed(clip()))
      return failure();
    groups.resize(specs.size());
    for (unsigned group = 0; group < specs.size(); ++group)
      if (failed(buildGroup(group)))
        return failure();
    return success();
  }

private:
  LogicalResult parseSpecs();
  LogicalResult checkNames();
  LogicalResult findTrained();
  FailureOr<unsigned> chooseGroup(VariableOp parameter);
  void readCount();
  void readLossScale();
  LogicalResult skipUnlessFinite();
  void adaptLossScale(Value isFinite, VariableOp finiteSteps);
  Value readGradient(Trained &trained);
  LogicalResult clip();
  FailureOr<VariableOp> addScalar(const llvm::Twine &symbol, Type element, double value);
  LogicalResult addHyperparameter(const Hyperparameter &hyperparameter, unsigned group);
  LogicalResult buildGroup(unsigned group);
  void warnUnused(const OptimizerSpec &spec);
  LogicalResult buildStep(Trained &trained);
  LogicalResult buildAverage(const Trained &trained, Value after);

  /// Returns the element type of the arithmetic: f64 for f64, f32 for all others.
  Type getComputeElement(VariableOp variable) {
    Type element = variable.getTensorType().getElementType();
    return element.isF64() ? element : builder.getF32Type();
  }
  /// Returns the suffix of the scalars of a group, such as ".1". With one group: "".
  std::string getSuffix(unsigned group) const {
    return specs.size() == 1 ? "" : "." + std::to_string(group);
  }

  ModuleOp module;
  VariableTable variables;
  const OptimizerOptions &options;
  OpBuilder builder;
  Arithmetic math;
  llvm::SmallVector<OptimizerSpec> specs;
  llvm::SmallVector<Trained> parameters;
  llvm::SmallVector<GroupScalars> groups;
  Value count;     ///< count of the step, a divisor of all gradients; null without a loss
  Value lossScale; ///< loss scale, another divisor of all gradients; null if the loss is not scaled
  Value ok;        ///< condition for applying the step; null: always
};

} // namespace

LogicalResult UpdateBuilder::parseSpecs() {
  for (llvm::StringRef text : splitList(options.optimizer)) {
    if (text.starts_with("@")) {
      auto groups = readOptimizerFile(text.drop_front());
      if (!groups)
        return reportError(module, groups.takeError());
      llvm::append_range(specs, *groups);
      continue;
    }
    auto spec = parseOptimizerSpec(text);
    if (!spec)
      return module.emitError("optimizer ") << llvm::toString(spec.takeError());
    if (!spec->glob.empty() && !matchesParameter(spec->glob, module))
      return refuseFlag(module, "optimizer \"" + spec->text + "\"")
             << ": matches no parameter" << describeNearestParameters(spec->glob, module);
    specs.push_back(*spec);
  }
  return checkNames();
}

/// Calls `visit` with the symbol and the names of a parameter.
static void forEachName(VariableOp parameter, llvm::function_ref<void(llvm::StringRef)> visit) {
  visit(parameter.getSymName());
  if (ArrayAttr names = parameter.getNamesAttr())
    for (auto name : names.getAsRange<StringAttr>())
      visit(name.getValue());
}

/// Checks that the groups of files name parameters of the model.
LogicalResult UpdateBuilder::checkNames() {
  llvm::StringSet<> known;
  for (VariableOp parameter : getParameters(module))
    forEachName(parameter, [&](llvm::StringRef name) { known.insert(name); });
  for (const OptimizerSpec &spec : specs)
    for (const std::string &name : spec.names)
      if (!known.contains(name))
        return refuseFlag(module, "optimizer " + spec.text)
               << ": the model has no parameter '" << name << "'"
               << describeNearestParameters(name, module);
  return success();
}

/// Returns true if a spec has a pattern for a parameter, or names the parameter.
static bool accepts(const OptimizerSpec &spec, VariableOp parameter) {
  if (spec.file.empty())
    return (spec.glob.empty() || matchesVariable(spec.glob, parameter)) &&
           spec.acceptsRank(parameter.getTensorType().getRank());
  bool isNamed = false;
  forEachName(parameter, [&](llvm::StringRef name) { isNamed |= spec.names.contains(name.str()); });
  return isNamed;
}

FailureOr<unsigned> UpdateBuilder::chooseGroup(VariableOp parameter) {
  for (auto [group, spec] : llvm::enumerate(specs))
    if (accepts(spec, parameter))
      return unsigned(group);
  auto file = llvm::find_if(specs, [](const OptimizerSpec &spec) { return !spec.file.empty(); });
  if (file != specs.end())
    return refuseFlag(parameter, "optimizer @" + file->file)
               << ": no group has the parameter '" << parameter.getDisplayName()
               << "'; add it to \"parameters\" of a group, or freeze it with "
               << spellFlag("freeze"),
           failure();
  return refuseFlag(parameter, "optimizer")
             << ": no filter matches parameter '" << parameter.getDisplayName()
             << "'; add a last --optimizer without a filter",
         failure();
}

/// Lists the parameters that have a gradient, in module order.
LogicalResult UpdateBuilder::findTrained() {
  llvm::DenseMap<llvm::StringRef, VariableOp> gradients;
  for (auto variable : module.getOps<VariableOp>())
    if (variable.getKind() == VariableKind::Gradient)
      gradients[*variable.getOf()] = variable;
  for (auto variable : module.getOps<VariableOp>()) {
    auto gradient = gradients.find(variable.getSymName());
    if (gradient == gradients.end())
      continue;
    auto group = chooseGroup(variable);
    if (failed(group))
      return failure();
    parameters.push_back({variable, gradient->second, *group, {}});
  }
  return success();
}

/// Reads the count of the step. If the count is 0, uses 1 as divisor and skips the step (`ok` is
/// false).
void UpdateBuilder::readCount() {
  auto variable = variables.lookup(kLossCountSymbol);
  if (!variable)
    return;
  // Reuses the read of the loss, because a second read would be reduced over the ranks again.
  auto reads = builder.getInsertionBlock()->getOps<ReadOp>();
  auto known = llvm::find_if(
      reads, [&](ReadOp op) { return op.getVariable() == StringRef(kLossCountSymbol); });
  Value read = known == reads.end() ? makeRead(builder, math.loc, variable) : (*known).getResult();
  ok = math.compare(Predicate::Ne, read, math.constant(read, 0));
  count = math.select(ok, read, math.constant(read, 1));
}

Value UpdateBuilder::readGradient(Trained &trained) {
  math.loc = trained.parameter.getLoc();
  Value sum = math.convert(makeRead(builder, math.loc, trained.gradient),
                           getComputeElement(trained.parameter));
  Value scale =
      lossScale && count ? math.convert(lossScale, getElementTypeOrSelf(count)) : lossScale;
  Value divisor = count && scale ? math.mul(count, scale) : count ? count : scale;
  return divisor ? math.div(sum, math.spread(divisor, sum)) : sum;
}

void UpdateBuilder::readLossScale() {
  if (auto variable = variables.lookup(kLossScaleSymbol))
    lossScale = makeRead(builder, math.loc, variable);
}

static Value addElements(Arithmetic &math, Value value) {
  auto dims =
      llvm::to_vector(llvm::seq<int64_t>(0, cast<RankedTensorType>(value.getType()).getRank()));
  if (dims.empty())
    return value;
  return ReduceOp::create(math.builder, math.loc, ReductionKind::Sum, value,
                          llvm::ArrayRef<int64_t>(dims));
}

/// Skips the step if a gradient is not finite. The check computes the sum of 0 * gradient over all
/// elements. The sum is 0 if all elements are finite, and NaN otherwise.
LogicalResult UpdateBuilder::skipUnlessFinite() {
  Value total;
  for (Trained &trained : parameters) {
    math.loc = trained.parameter.getLoc();
    Value wide = math.convert(trained.mean, builder.getF32Type());
    Value zeros = addElements(math, math.scale(wide, 0));
    total = total ? math.add(total, zeros) : zeros;
  }
  if (!total)
    return success();
  auto scalar = cast<RankedTensorType>(total.getType());
  auto steps = variables.add(VariableKind::Optimizer, kFiniteStepsSymbol, scalar,
                             parameters.front().parameter);
  if (failed(steps))
    return failure();
  (*steps)->setAttr(kSharedMark, builder.getUnitAttr());
  math.loc = module.getLoc();
  Value isFinite = math.compare(Predicate::Eq, total, math.constant(total, 0));
  adaptLossScale(isFinite, *steps);
  ok = ok ? math.binary<AndOp>(ok, isFinite) : isFinite;
  return success();
}

/// Updates the loss scale as torch.amp.GradScaler does with its default settings.
void UpdateBuilder::adaptLossScale(Value isFinite, VariableOp finiteSteps) {
  constexpr double growthInterval = 2000, largest = 0x1p127;
  Value steps = makeRead(builder, math.loc, finiteSteps), zero = math.constant(steps, 0);
  steps = math.select(isFinite, math.add(steps, math.constant(steps, 1)), zero);
  Value grows = math.compare(Predicate::Ge, steps, math.constant(steps, growthInterval));
  Value grown = math.binary<MinOp>(math.scale(lossScale, 2), math.constant(steps, largest));
  Value kept = math.select(grows, grown, lossScale);
  makeWrite(builder, math.loc, variables.lookup(kLossScaleSymbol),
            math.select(isFinite, kept, math.scale(lossScale, 0.5)));
  makeWrite(builder, math.loc, finiteSteps, math.select(grows, zero, steps));
}

/// Clips gradients as torch.nn.utils.clip_grad_norm_ does: multiplies all gradients by
/// min(1, max_norm / (norm + 1e-6)). The global norm is computed in f32.
LogicalResult UpdateBuilder::clip() {
  Value total;
  for (Trained &trained : parameters) {
    math.loc = trained.parameter.getLoc();
    Value wide = math.convert(trained.mean, builder.getF32Type());
    Value squares = math.mul(wide, wide);
    Value sum = addElements(math, squares);
    total = total ? math.add(total, sum) : sum;
  }
  if (!total)
    return success();
  auto variable = variables.add(VariableKind::Accumulator, "grad_norm",
                                cast<RankedTensorType>(total.getType()));
  auto bound = addScalar("clip_grad_norm", builder.getF32Type(), options.clipNorm);
  if (failed(variable) || failed(bound))
    return failure();
  Value norm = math.unary<SqrtOp>(total);
  makeWrite(builder, math.loc, *variable, norm);
  Value factor =
      math.div(makeRead(builder, math.loc, *bound), math.add(norm, math.constant(norm, 1e-6)));
  factor = math.binary<MinOp>(factor, math.constant(norm, 1));
  for (Trained &trained : parameters) {
    math.loc = trained.parameter.getLoc();
    trained.mean = math.mul(trained.mean, math.spread(factor, trained.mean));
  }
  return success();
}

void UpdateBuilder::warnUnused(const OptimizerSpec &spec) {
  warnFlag(module, "optimizer \"" + spec.text + "\"")
      << " updates no parameter: all parameters that it matches are frozen, get no gradient, or "
         "match an earlier optimizer";
}

/// Adds a scalar variable with an initial value. The host may change the value between steps.
FailureOr<VariableOp> UpdateBuilder::addScalar(const llvm::Twine &symbol, Type element,
                                               double value) {
  auto type = RankedTensorType::get({}, element);
  Attribute init = DenseElementsAttr::get(type, builder.getFloatAttr(element, value).getValue());
  return variables.add(VariableKind::Scalar, symbol.str(), type, {}, init);
}

/// Adds the variables of a hyperparameter of a group, and reads them into `groups`. Example:
/// @beta1.0, and its forms @beta1.0.one_minus and @beta1.0.log. The variables are f64 if a
/// parameter of the group is f64.
LogicalResult UpdateBuilder::addHyperparameter(const Hyperparameter &hyperparameter,
                                               unsigned group) {
  Type element = builder.getF32Type();
  for (const Trained &trained : parameters)
    if (trained.group == group && getComputeElement(trained.parameter).isF64())
      element = builder.getF64Type();
  std::string symbol = hyperparameter.name.str() + getSuffix(group);
  for (auto [form, scalar] : llvm::zip_equal(getScalarForms(), hyperparameter.forms)) {
    bool isDerived = !form.name.empty();
    if (isDerived && !scalar)
      continue;
    auto variable = addScalar(isDerived ? symbol + "." + form.name : symbol, element,
                              form.compute(specs[group].*hyperparameter.initial));
    if (failed(variable))
      return failure();
    if (isDerived)
      variable->setOfAttr(FlatSymbolRefAttr::get(builder.getStringAttr(symbol)));
    if (scalar)
      groups[group].*scalar = makeRead(builder, math.loc, *variable);
  }
  return success();
}

/// Builds one optimizer (group): its hyperparameters, its count of applied steps, its bias
/// corrections, and the steps of its parameters.
LogicalResult UpdateBuilder::buildGroup(unsigned group) {
  const OptimizerSpec &spec = specs[group];
  auto first =
      llvm::find_if(parameters, [&](const Trained &trained) { return trained.group == group; });
  if (first == parameters.end())
    return warnUnused(spec), success();
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  math.loc = module.getLoc();
  for (const Hyperparameter &hyperparameter : getHyperparameters(spec))
    if (failed(addHyperparameter(hyperparameter, group)))
      return failure();
  auto steps =
      variables.add(VariableKind::Optimizer, "optimizer." + std::to_string(group) + ".count",
                    scalar, first->parameter);
  if (failed(steps))
    return failure();
  (*steps)->setAttr(kSharedMark, builder.getUnitAttr());
  Value count = groups[group].count = makeRead(builder, math.loc, *steps);
  completeGroupScalars(math, spec, groups[group]);
  if (options.ema > 0) {
    Value isFirst = math.compare(Predicate::Eq, count, math.constant(count, 0));
    groups[group].averaged =
        math.select(isFirst, math.constant(count, 1), math.constant(count, 1 - options.ema));
  }
  makeWrite(builder, math.loc, *steps, math.add(count, math.constant(count, 1)), ok);
  for (Trained &trained : parameters) {
    if (trained.group != group)
      continue;
    if (failed(buildStep(trained)))
      return failure();
    if (specs.size() > 1)
      trained.parameter->setAttr(
          kRateMark, FlatSymbolRefAttr::get(builder.getStringAttr("lr" + getSuffix(group))));
  }
  return success();
}

LogicalResult UpdateBuilder::buildStep(Trained &trained) {
  const OptimizerSpec &spec = specs[trained.group];
  VariableOp parameter = trained.parameter;
  math.loc = parameter.getLoc();
  Type element = getComputeElement(parameter);
  auto stateType = RankedTensorType::get(parameter.getTensorType().getShape(), element);
  llvm::SmallVector<VariableOp> stateVariables;
  llvm::SmallVector<Value> state;
  for (llvm::StringRef name : getStateNames(spec)) {
    auto variable = variables.add(
        VariableKind::Optimizer, (parameter.getSymName() + "." + name).str(), stateType, parameter);
    if (failed(variable))
      return failure();
    stateVariables.push_back(*variable);
    state.push_back(makeRead(builder, math.loc, *variable));
  }
  Value before = math.convert(makeRead(builder, math.loc, parameter), element);
  StepResult after = makeStep(math, spec, groups[trained.group], before, trained.mean, state);
  for (auto [variable, value] : llvm::zip_equal(stateVariables, after.state))
    makeWrite(builder, math.loc, variable, value, ok);
  if (options.ema > 0 && failed(buildAverage(trained, after.parameter)))
    return failure();
  makeWrite(builder, math.loc, parameter,
            math.convert(after.parameter, parameter.getTensorType().getElementType()), ok);
  return success();
}

/// Updates the parameter's moving average as torch.optim.swa_utils.AveragedModel does with
/// get_ema_multi_avg_fn. The first applied step sets the average to the parameter. Each later step
/// computes average += (1 - decay) * (parameter - average).
LogicalResult UpdateBuilder::buildAverage(const Trained &trained, Value after) {
  VariableOp parameter = trained.parameter;
  auto average = variables.add(VariableKind::Average, (parameter.getSymName() + ".ema").str(),
                               cast<RankedTensorType>(after.getType()), parameter);
  if (failed(average))
    return failure();
  Value before = makeRead(builder, math.loc, *average);
  Value share = math.spread(groups[trained.group].averaged, after);
  makeWrite(builder, math.loc, *average, math.add(before, math.mul(share, math.sub(after, before))),
            ok);
  return success();
}

LogicalResult buildUpdate(ModuleOp module, const OptimizerOptions &options) {
  auto update = module.lookupSymbol<func::FuncOp>("update");
  if (!update)
    return module.emitError("the module has no function @update; run ps-autodiff first");
  if (splitList(options.optimizer).empty())
    return success();
  if (failed(UpdateBuilder(module, update, options).build()))
    return failure();
  Block &block = update.getBody().front();
  eraseDeadOps(block);
  for (Operation &op : block.without_terminator())
    setPhase(&op, Phase::Update);
  return success();
}

#define GEN_PASS_DEF_OPTIMIZERPASS
#include "lib/Training/Passes.h.inc"

namespace {
struct OptimizerPass : impl::OptimizerPassBase<OptimizerPass> {
  using OptimizerPassBase::OptimizerPassBase;
  void runOnOperation() override {
    if (failed(buildUpdate(getOperation(), {optimizer, clipNorm, ema})))
      signalPassFailure();
  }
};
} // namespace

} // namespace parashard::training
