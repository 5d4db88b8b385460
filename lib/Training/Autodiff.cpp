// ps-autodiff: replaces @forward by @micro_batch (forward and backward), @evaluate and @update.
// Adds @count if the loss needs it. An inference program only has @evaluate.
#include "Backward.h"
#include "BatchDims.h"
#include "BatchSums.h"
#include "OptimizerStep.h"
#include "StepLoss.h"
#include "dialects/ps/Entries.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/Parameters.h"
#include "parashard/Import.h"
#include "parashard/Levels.h"
#include "parashard/Training.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace parashard::import;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::training {

namespace {

struct Output {
  unsigned index;
  std::string name;
  RankedTensorType type;

  bool isFloat() const { return isa<FloatType>(type.getElementType()); }
  bool isScalarFloat() const {
    return isFloat() && type.getNumElements() == 1 && type.getRank() == 0;
  }
};

/// An output that the host can read after a training step.
struct Kept {
  unsigned index;
  int64_t batchDim; ///< or kNoBatch
};

/// Sets the attribute `training` of an op to false, if the op (such as dropout) has this attribute.
void stopTraining(Operation *op) {
  auto name = StringAttr::get(op->getContext(), "training");
  if (auto training = op->getInherentAttr(name); training && isa_and_nonnull<BoolAttr>(*training))
    op->setInherentAttr(name, BoolAttr::get(op->getContext(), false));
}

void erase(func::FuncOp function, llvm::function_ref<bool(Operation &)> which) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front().without_terminator()))
    if (which(op))
      op.erase();
}

/// Turns off dropout, and uses running statistics in batch norms.
void stopTraining(func::FuncOp function) {
  for (Operation &op : function.getBody().front().without_terminator()) {
    stopTraining(&op);
    if (auto byMode = dyn_cast<ByModeOp>(op))
      byMode.replaceAllUsesWith(byMode.getInEvaluation());
  }
}

/// Turns off dropout, uses running statistics in batch norms, and erases all writes and
/// accumulations.
void switchToEvaluation(func::FuncOp function) {
  erase(function, [](Operation &op) { return isa<WriteOp, AccumulateOp>(op); });
  stopTraining(function);
}

/// Builds the functions of level 1 from @forward.
class TrainingBuilder {
public:
  TrainingBuilder(ModuleOp module, func::FuncOp forward, const AutodiffOptions &options)
      : module(module), variables(module), forward(forward), options(options) {}

  LogicalResult build() {
    if (failed(markBatchDims(module, options.batchDims)))
      return failure();
    if (failed(freezeParameters()) || failed(readOutputs()) || failed(chooseLoss()) ||
        failed(checkLoss()) || failed(chooseDifferentiated()) || failed(chooseAverage()) ||
        failed(chooseKept()))
      return failure();
    if (options.evalMode)
      switchToEvaluation(forward);
    if (options.inference)
      buildEvaluate();
    else if (failed(buildTraining()))
      return failure();
    for (auto function : module.getOps<func::FuncOp>())
      if (isInferenceEntry(function) && failed(finishEntry(function)))
        return failure();
    forward.erase();
    module->setAttr(kLevelMark, LevelAttr::get(module.getContext(), Level::Training));
    return success();
  }

private:
  LogicalResult freezeParameters();
  LogicalResult readOutputs();
  LogicalResult chooseLoss();
  LogicalResult checkLoss();
  LogicalResult chooseDifferentiated();
  LogicalResult chooseAverage();
  LogicalResult chooseKept();
  LogicalResult buildTraining();
  void buildCount();
  LogicalResult buildMicroBatch();
  FailureOr<VariableOp> getLossScale(float initial);
  FailureOr<Value> scaleCotangent(BackwardBuilder &builder, Value cotangent);
  FailureOr<Value> readLossScale(BackwardBuilder &builder, Value total, bool isSummed);
  LogicalResult accumulateOutputs(func::FuncOp function);
  LogicalResult accumulateGradients(Backward &backward, OpBuilder &builder);
  void warnAboutMissingGradients();
  void warnAboutWrittenBuffers(func::FuncOp evaluate);
  void buildEvaluate();
  LogicalResult finishEntry(func::FuncOp function);
  void buildUpdate();

  llvm::SmallVector<LossPart> getLossParts(OpBuilder &builder, Value value) const;
  void markIgnoredRows(llvm::StringRef entry, llvm::ArrayRef<LossPart> parts);
  InFlightDiagnostic listOutputs(InFlightDiagnostic error);
  FailureOr<unsigned> findOutput(llvm::StringRef flag, llvm::StringRef numberOrName);
  func::FuncOp cloneForward(llvm::StringRef name, Phase phase);
  bool isTrained(SymbolRefAttr symbol);
  /// Returns the element type of accumulators: f64 for f64, f32 for all others.
  Type getAccumulatorElement(Type element) {
    return element.isF64() ? element : Float32Type::get(module.getContext());
  }

  ModuleOp module;
  VariableTable variables;
  func::FuncOp forward;
  const AutodiffOptions &options;
  llvm::SmallVector<Output> outputs;
  std::optional<unsigned> loss;
  llvm::SmallVector<unsigned> differentiated; ///< outputs to differentiate with --loss none
  std::vector<Kept> kept;                     ///< outputs that a step with a loss returns
  bool splitsLoss = false; ///< false: the whole loss is one part, averaged over micro-batches
  std::optional<StepLoss> stepLoss;
};

} // namespace

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

LogicalResult TrainingBuilder::freezeParameters() {
  for (llvm::StringRef glob : options.freeze) {
    if (!matchesParameter(glob, module))
      return refuseFlag(module, "freeze " + glob)
             << ": matches no parameter" << describeNearestParameters(glob, module);
    for (VariableOp parameter : getParameters(module))
      if (matchesVariable(glob, parameter))
        parameter.setFrozen(true);
  }
  return success();
}

LogicalResult TrainingBuilder::readOutputs() {
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    auto name = forward.getResultAttrOfType<StringAttr>(i, kNameMark);
    auto type = dyn_cast<RankedTensorType>(forward.getResultTypes()[i]);
    if (!type)
      return refuse(forward) << "output " << i << " has type " << forward.getResultTypes()[i]
                             << ", expected a tensor";
    outputs.push_back({i, name ? name.str() : std::to_string(i), type});
  }
  return success();
}

InFlightDiagnostic TrainingBuilder::listOutputs(InFlightDiagnostic error) {
  error << "; outputs are";
  for (const Output &output : outputs)
    error << (output.index ? ", " : " ") << output.index << " \"" << output.name
          << "\" : " << output.type;
  return error;
}

FailureOr<unsigned> TrainingBuilder::findOutput(llvm::StringRef flag,
                                                llvm::StringRef numberOrName) {
  unsigned number;
  for (const Output &output : outputs)
    if (output.name == numberOrName)
      return output.index;
  if (!numberOrName.getAsInteger(10, number) && number < outputs.size())
    return number;
  return listOutputs(refuseFlag(forward, flag + " " + numberOrName) << ": no such output"),
         failure();
}

/// Returns true if `value` does not depend on an input, a variable or a random number.
static bool isConstant(Value value) {
  llvm::SmallVector<Value> open{value};
  llvm::DenseSet<Operation *> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || isa<ReadOp, RandomOpInterface>(op))
      return false;
    if (seen.insert(op).second)
      llvm::append_range(open, op->getOperands());
  }
  return true;
}

LogicalResult TrainingBuilder::checkLoss() {
  if (!loss || options.inference)
    return success();
  Value value = forward.getBody().front().getTerminator()->getOperand(*loss);
  if (!isConstant(value))
    return success();
  Operation *producer = value.getDefiningOp(); // an op that folding created may lack a source line
  bool hasLine = bool(producer->getLoc()->findInstanceOf<FileLineColLoc>());
  return listOutputs(refuse(hasLine ? producer : forward.getOperation())
                     << "the loss is a constant: \"" << outputs[*loss].name
                     << "\" does not depend on an input or a variable; return the loss that the "
                        "model computes, or name another output with --loss-output");
}

LogicalResult TrainingBuilder::chooseLoss() {
  if (options.loss == "none")
    return success();
  if (!options.loss.empty()) {
    auto found = findOutput("loss-output", options.loss);
    if (failed(found))
      return failure();
    unsigned index = *found;
    if (!outputs[index].isScalarFloat())
      return refuseFlag(forward, "loss-output " + options.loss)
             << ": the output has type " << outputs[index].type
             << ", expected a floating-point scalar";
    loss = index;
    return success();
  }
  llvm::SmallVector<unsigned> scalars;
  for (const Output &output : outputs)
    if (output.isScalarFloat())
      scalars.push_back(output.index);
  if (options.inference && scalars.empty())
    return success();
  if (scalars.empty())
    return listOutputs(
        refuse(forward)
        << "the model has no floating-point scalar output to use as the loss; add one with "
           "--loss cross_entropy, causal_lm or mse, or pass --loss none and give cotangents "
           "through the C API");
  if (scalars.size() != 1 && !llvm::is_contained(scalars, 0u) && options.inference)
    return success(); // an inference program needs no loss
  if (scalars.size() != 1 && !llvm::is_contained(scalars, 0u))
    return listOutputs(refuse(forward)
                       << "the model has several floating-point scalar outputs; name "
                          "the loss with --loss-output");
  loss = scalars.front();
  return success();
}

LogicalResult TrainingBuilder::chooseDifferentiated() {
  if (loss) {
    if (!options.differentiate.empty())
      return refuseFlag(forward, "differentiate")
             << " cannot be combined with a loss; add --loss none";
    return success();
  }
  // The model may return one value as several outputs. Such a value has one cotangent.
  auto add = [&](const Output &output) {
    if (llvm::none_of(differentiated,
                      [&](unsigned index) { return outputs[index].name == output.name; }))
      differentiated.push_back(output.index);
  };
  for (llvm::StringRef name : options.differentiate) {
    auto found = findOutput("differentiate", name);
    if (failed(found))
      return failure();
    if (!outputs[*found].isFloat())
      return refuseFlag(forward, "differentiate " + name)
             << ": the output has type " << outputs[*found].type
             << ", which has no derivative; name floating-point outputs";
    add(outputs[*found]);
  }
  if (options.differentiate.empty())
    for (const Output &output : outputs)
      if (output.isFloat())
        add(output);
  return success();
}

LogicalResult TrainingBuilder::chooseAverage() {
  llvm::StringRef requested = options.lossAverage;
  if (!requested.empty() && requested != "step" && requested != "micro-batch")
    return module.emitError("loss average is '") << requested << "', expected step or micro-batch";
  if (options.inference || !requested.empty()) // no loss to average, or --loss-average is given
    module->removeAttr(kBatchNumberMark);
  if (!loss)
    return success();
  // splitLoss creates ops in @forward, which is erased later.
  Operation *end = forward.getBody().front().getTerminator();
  OpBuilder builder(end);
  std::optional<Location> ambiguous;
  llvm::SmallVector<LossPart> parts = splitLoss(builder, end->getOperand(*loss), &ambiguous);
  bool recognised = parts.front().kind != LossPart::Kind::Average;
  if (requested == "step" && !recognised)
    return refuse(forward)
           << "loss \"" << outputs[*loss].name
           << "\" cannot be averaged over a step: it must be a sum over the batch, or such a sum "
              "divided by a count that depends only on the inputs; use --loss-average micro-batch";
  splitsLoss = recognised && requested != "micro-batch";
  if (!options.inference && requested.empty() && isUneven(parts))
    module->setAttr(kUnevenLossMark, UnitAttr::get(module.getContext()));
  if (!options.inference && requested.empty() && ambiguous)
    module->setAttr(kAmbiguousMeanMark, LocationAttr(*ambiguous));
  auto type =
      RankedTensorType::get({}, getAccumulatorElement(outputs[*loss].type.getElementType()));
  stepLoss.emplace(getLossParts(builder, end->getOperand(*loss)), type);
  eraseDeadOps(forward.getBody().front());
  if (options.inference)
    return success();
  module->setAttr(kLossAverageMark, StringAttr::get(module.getContext(), stepLoss->describe()));
  return stepLoss->addVariables(variables);
}

llvm::SmallVector<LossPart> TrainingBuilder::getLossParts(OpBuilder &builder, Value value) const {
  if (splitsLoss)
    return splitLoss(builder, value);
  return {{LossPart::Kind::Average, value, Value(), {}}};
}

void TrainingBuilder::markIgnoredRows(llvm::StringRef entry, llvm::ArrayRef<LossPart> parts) {
  if (!ignoresRows(parts))
    return;
  auto marked = module->getAttrOfType<StringAttr>(kIgnoresRowsMark);
  std::string entries = marked ? (marked.getValue() + "+" + entry).str() : entry.str();
  module->setAttr(kIgnoresRowsMark, StringAttr::get(module.getContext(), entries));
}

/// Returns the batch dims of the outputs of `forward` in evaluation mode, as `BatchSums` does. In
/// training mode, a batch norm would combine the samples.
static llvm::SmallVector<int64_t> getBatchDims(func::FuncOp forward) {
  OwningOpRef<func::FuncOp> copy = forward.clone();
  switchToEvaluation(*copy);
  Block &block = copy->getBody().front();
  BatchSums batch(block);
  return llvm::map_to_vector(block.getTerminator()->getOperands(), [&](Value value) {
    bool isScalar = cast<RankedTensorType>(value.getType()).getRank() == 0;
    return isScalar ? kWholeBatch : batch.getBatchDim(value);
  });
}

/// Chooses the outputs of `--keep-outputs`. "all" omits outputs with one value per micro-batch,
/// which are refused if they are named.
LogicalResult TrainingBuilder::chooseKept() {
  if (options.keepOutputs.empty() || options.inference)
    return success();
  if (!loss)
    return refuseFlag(module, "keep-outputs")
           << " cannot be combined with --loss none: the entry \"forward\" returns all outputs";
  llvm::SmallVector<int64_t> batchDims = getBatchDims(forward);
  llvm::StringSet<> known; // the model may return one value as several outputs of one name
  auto add = [&](unsigned index) {
    if (known.insert(outputs[index].name).second)
      kept.push_back({index, batchDims[index]});
  };
  if (llvm::ArrayRef(options.keepOutputs) == llvm::ArrayRef<std::string>("all")) {
    for (const Output &output : outputs)
      if (output.index != *loss && batchDims[output.index] != kWholeBatch)
        add(output.index);
    return success();
  }
  for (llvm::StringRef name : options.keepOutputs) {
    FailureOr<unsigned> index = findOutput("keep-outputs", name);
    if (failed(index))
      return failure();
    if (*index == *loss)
      return refuseFlag(forward, "keep-outputs " + name)
             << ": the output is the loss, which every step returns; remove it from the list";
    if (batchDims[*index] == kWholeBatch)
      return refuseFlag(forward, "keep-outputs " + name)
             << ": the output of type " << outputs[*index].type
             << " has no batch dim, so the values of several micro-batches "
                "cannot be joined; remove it from the list";
    add(*index);
  }
  return success();
}

bool TrainingBuilder::isTrained(SymbolRefAttr symbol) {
  auto variable = variables.lookup(symbol.getLeafReference());
  return variable && variable.getKind() == VariableKind::Parameter && !variable.getFrozen();
}

LogicalResult TrainingBuilder::buildTraining() {
  if (stepLoss && stepLoss->needsCount())
    buildCount(); // before @micro_batch, which reads the counts that @count accumulates
  if (failed(buildMicroBatch()))
    return failure();
  buildEvaluate();
  buildUpdate();
  return success();
}

//===----------------------------------------------------------------------===//
// @micro_batch
//===----------------------------------------------------------------------===//

func::FuncOp TrainingBuilder::cloneForward(llvm::StringRef name, Phase phase) {
  OpBuilder builder(forward);
  auto function = cast<func::FuncOp>(builder.clone(*forward));
  function.setName(name);
  for (Operation &op : function.getBody().front().without_terminator())
    setPhase(&op, phase);
  return function;
}

/// Keeps only some of the results of a function, in their order, with their batch dims.
static void keepResults(func::FuncOp function, llvm::ArrayRef<Kept> kept) {
  Operation *end = function.getBody().front().getTerminator();
  llvm::BitVector erased(function.getNumResults(), true);
  for (auto [index, batchDim] : kept) {
    erased.reset(index);
    if (batchDim != 0)
      function.setResultAttr(index, kBatchDimMark, Builder(function).getI64IntegerAttr(batchDim));
  }
  end->eraseOperands(erased);
  (void)function.eraseResults(erased);
}

/// Builds @count: the part of the forward that computes the counts of the step. Removes unused
/// arguments.
void TrainingBuilder::buildCount() {
  func::FuncOp function = cloneForward("count", Phase::Forward);
  Block &block = function.getBody().front();
  erase(function, [](Operation &op) { return isa<WriteOp, AccumulateOp>(op); });
  Operation *end = block.getTerminator();
  OpBuilder builder(end);
  stepLoss->accumulateCounts(builder, getLossParts(builder, end->getOperand(*loss)));
  keepResults(function, {});
  eraseDeadOps(block);
  llvm::BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    unused[argument.getArgNumber()] = argument.use_empty();
  (void)function.eraseArguments(unused);
  for (Operation &op : block.without_terminator())
    setPhase(&op, Phase::Forward);
}

LogicalResult TrainingBuilder::buildMicroBatch() {
  func::FuncOp function = cloneForward("micro_batch", Phase::Forward);
  Block &block = function.getBody().front();
  Operation *end = block.getTerminator();
  OpBuilder builder(end);
  Value total;
  bool isSummed = false;
  if (loss) {
    llvm::SmallVector<LossPart> parts = getLossParts(builder, end->getOperand(*loss));
    isSummed = parts.front().kind == LossPart::Kind::Mean;
    markIgnoredRows("step", parts);
    total = stepLoss->accumulate(builder, parts);
  }
  if (failed(accumulateOutputs(function)))
    return failure();
  for (Operation &op : block.without_terminator())
    if (!getPhase(&op))
      setPhase(&op, Phase::Forward);

  Backward backward(block, [&](SymbolRefAttr symbol) { return isTrained(symbol); });
  if (total) {
    BackwardBuilder seeds = backward.makeBuilder(total);
    seeds.setInsertionPoint(end);
    auto type = cast<RankedTensorType>(total.getType());
    FailureOr<Value> seed = options.scaleLoss
                                ? readLossScale(seeds, total, isSummed)
                                : FailureOr<Value>(seeds.make<ConstantOp>(type, 1.0).getResult());
    if (failed(seed))
      return failure();
    backward.seed(total, *seed);
  }
  for (unsigned index : differentiated) {
    auto mark = builder.getDictionaryAttr(
        builder.getNamedAttr(kCotangentMark, builder.getStringAttr(outputs[index].name)));
    unsigned number = function.getNumArguments();
    (void)function.insertArgument(number, outputs[index].type, mark, function.getLoc());
    BackwardBuilder seeds = backward.makeBuilder(end->getOperand(index));
    seeds.setInsertionPoint(end);
    FailureOr<Value> seed = scaleCotangent(seeds, function.getArgument(number));
    if (failed(seed))
      return failure();
    backward.seed(end->getOperand(index), *seed);
  }
  if (failed(backward.run()) || failed(accumulateGradients(backward, builder)))
    return failure();
  warnAboutMissingGradients();
  if (loss)
    keepResults(function, kept);
  spreadWeightPhase(block);
  eraseDeadOps(block);
  return success();
}

/// Estimates how many elements are added to compute a scalar. Goes back from the scalar through
/// other scalars, and returns the number of elements of the largest tensor from which these scalars
/// are computed. Example: 4096 for sum(tensor<32x128xf32>) * 0.5.
static int64_t countAdded(Value scalar) {
  llvm::SetVector<Value> reached;
  reached.insert(scalar);
  int64_t most = 1;
  for (unsigned i = 0; i < reached.size(); ++i) {
    int64_t count = cast<RankedTensorType>(reached[i].getType()).getNumElements();
    most = std::max(most, count);
    if (Operation *op = reached[i].getDefiningOp(); op && count == 1)
      for (Value operand : op->getOperands())
        if (isa<RankedTensorType>(operand.getType()))
          reached.insert(operand);
  }
  return most;
}

/// The initial scale of torch.amp.GradScaler.
static constexpr float kFirstLossScale = 65536;

/// Returns the variable `@loss_scale`, which the first call adds. The variable is optimizer state
/// that all parameters share, and ps-optimizer writes it. Fails if no parameter is trained.
FailureOr<VariableOp> TrainingBuilder::getLossScale(float initial) {
  if (auto known = variables.lookup(kLossScaleSymbol))
    return known;
  VariableOp first;
  for (auto variable : module.getOps<VariableOp>())
    if (!first && isTrained(FlatSymbolRefAttr::get(variable.getSymNameAttr())))
      first = variable;
  if (!first)
    return refuse(forward) << "the model has no trainable parameter, so loss scaling has "
                              "no effect; unfreeze a parameter, or compile with --precision fp32 "
                              "or bf16";
  auto scalar = RankedTensorType::get({}, Float32Type::get(module.getContext()));
  auto scale = variables.add(VariableKind::Optimizer, kLossScaleSymbol, scalar, first,
                             DenseElementsAttr::get(scalar, initial));
  if (failed(scale))
    return failure();
  (*scale)->setAttr(kSharedMark, UnitAttr::get(module.getContext()));
  return *scale;
}

/// Multiplies a cotangent argument by the loss scale, if the loss is scaled.
FailureOr<Value> TrainingBuilder::scaleCotangent(BackwardBuilder &builder, Value cotangent) {
  if (!options.scaleLoss)
    return cotangent;
  FailureOr<VariableOp> scale = getLossScale(kFirstLossScale);
  if (failed(scale))
    return failure();
  Arithmetic math(builder, builder.getLoc());
  Value read = makeRead(builder, builder.getLoc(), *scale);
  return math.mul(cotangent, math.spread(read, cotangent));
}

/// Reads the loss scale. Its initial value is 2^16. If `isSummed`, `total` is a sum that `@update`
/// later divides by the count of the step. In this case, the initial value is divided by the
/// smallest power of two that is at least the number of summed elements. Example: 2^16 / 2^7 for a
/// sum over 100 labels.
FailureOr<Value> TrainingBuilder::readLossScale(BackwardBuilder &builder, Value total,
                                                bool isSummed) {
  auto type = cast<RankedTensorType>(total.getType());
  FailureOr<VariableOp> scale =
      getLossScale(kFirstLossScale / (isSummed ? llvm::PowerOf2Ceil(countAdded(total)) : 1));
  if (failed(scale))
    return failure();
  Value read = makeRead(builder, builder.getLoc(), *scale);
  read = makeConvert(builder, builder.getLoc(), read, type.getElementType());
  if (read.getType() != type)
    read = ReshapeOp::create(builder, builder.getLoc(), type, read);
  return read;
}

/// Accumulates the floating-point scalar outputs other than the loss over the micro-batches. Does
/// nothing without a loss. If several outputs return the same value, accumulates only the first.
LogicalResult TrainingBuilder::accumulateOutputs(func::FuncOp function) {
  Operation *end = function.getBody().front().getTerminator();
  OpBuilder builder(end);
  llvm::DenseSet<Value> known;
  for (const Output &output : outputs) {
    if (!loss || !output.isScalarFloat() || output.index == *loss ||
        !known.insert(end->getOperand(output.index)).second)
      continue;
    auto type = RankedTensorType::get({}, getAccumulatorElement(output.type.getElementType()));
    auto variable = variables.add(VariableKind::Accumulator, "output." + output.name, type);
    if (failed(variable))
      return failure();
    Value value = end->getOperand(output.index);
    makeAccumulate(builder, value.getLoc(), *variable,
                   makeConvert(builder, value.getLoc(), value, type.getElementType()));
  }
  return success();
}

/// Adds one `ps.accumulate` per contribution to a gradient. Example: a tied weight that is used in
/// the embedding and in the head has two contributions.
LogicalResult TrainingBuilder::accumulateGradients(Backward &backward, OpBuilder &builder) {
  for (auto &[symbol, contributions] : backward.getGradients()) {
    auto variable = variables.lookup(symbol.getLeafReference());
    auto gradient = variables.add(VariableKind::Gradient, (variable.getSymName() + ".grad").str(),
                                  variable.getTensorType(), variable);
    if (failed(gradient))
      return failure();
    for (auto [value, read] : contributions) {
      AccumulateOp op = makeAccumulate(builder, read.getLoc(), *gradient, value);
      setPhase(op, Phase::BackwardInput); // spreadWeightPhase corrects the phase
      Operation *producer = value.getDefiningOp();
      Attribute origin = producer ? producer->getAttr(kOriginMark) : Attribute();
      op->setAttr(kOriginMark,
                  origin ? origin : builder.getI64IntegerAttr(backward.getOrdinal(read)));
    }
  }
  return success();
}

void TrainingBuilder::warnAboutMissingGradients() {
  for (auto variable : module.getOps<VariableOp>()) {
    bool trained = isTrained(FlatSymbolRefAttr::get(variable.getSymNameAttr())) &&
                   isa<FloatType>(variable.getTensorType().getElementType());
    if (trained && !variables.lookup((variable.getSymName() + ".grad").str()))
      variable.emitWarning("parameter '")
          << variable.getDisplayName() << "' gets no gradient: "
          << (loss ? "the loss does not depend on it" : "no differentiated output depends on it")
          << "; freeze the parameter to silence this warning";
  }
}

//===----------------------------------------------------------------------===//
// @evaluate and @update
//===----------------------------------------------------------------------===//

/// Sets `ps.batch_dim` on the results whose batch dim is not dim 0.
static void markResults(func::FuncOp function) {
  Block &block = function.getBody().front();
  BatchSums batch(block);
  for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
    int64_t dim = batch.getBatchDim(value);
    if (cast<RankedTensorType>(value.getType()).getRank() > 0 && dim != 0)
      function.setResultAttr(i, kBatchDimMark, Builder(function).getI64IntegerAttr(dim));
  }
}

/// Warns if the forward writes a value to a buffer and also uses the value. @evaluate uses the
/// value as well. The same model exported in eval mode may use the stored value of the buffer
/// instead.
void TrainingBuilder::warnAboutWrittenBuffers(func::FuncOp evaluate) {
  for (auto write : evaluate.getOps<WriteOp>()) {
    auto isOther = [](Operation *user) { return !isa<WriteOp>(user); };
    if (write.getValue().getDefiningOp() && llvm::any_of(write.getValue().getUsers(), isOther))
      write.emitWarning()
          << "'" << variables.lookup(write.getVariableAttr().getLeafReference()).getDisplayName()
          << "' is used after the model writes it here: an evaluation uses the value that its own "
             "batch would write, and discards it afterwards; to evaluate with the stored value, "
             "export the model in eval mode and compile the export with --inference";
  }
}

void TrainingBuilder::buildEvaluate() {
  func::FuncOp function = cloneForward("evaluate", Phase::Evaluate);
  Block &block = function.getBody().front();
  if (!options.inference)
    warnAboutWrittenBuffers(function);
  switchToEvaluation(function);
  Operation *end = block.getTerminator();
  OpBuilder builder(end);
  markResults(function);
  if (loss) {
    llvm::SmallVector<LossPart> parts = getLossParts(builder, end->getOperand(*loss));
    markIgnoredRows("evaluate", parts);
    if (areRowSums(builder, parts))
      module->setAttr(kRowSumsMark, builder.getUnitAttr());
    for (auto &[name, value] : stepLoss->makeResults(builder, parts)) {
      auto mark =
          builder.getDictionaryAttr(builder.getNamedAttr(kNameMark, builder.getStringAttr(name)));
      (void)function.insertResult(function.getNumResults(), value.getType(), mark);
      end->insertOperands(end->getNumOperands(), value);
    }
  }
  eraseDeadOps(block);
  for (Operation &op : block.without_terminator())
    setPhase(&op, Phase::Evaluate);
}

/// Turns an inference entry into a function of level 1: in evaluation mode, and without a gradient.
/// Keeps the writes of buffers, such as KV caches.
LogicalResult TrainingBuilder::finishEntry(func::FuncOp function) {
  Block &block = function.getBody().front();
  for (auto byMode : function.getOps<ByModeOp>())
    if (byMode.getTraining())
      return refuse(byMode) << "the entry @" << function.getName()
                            << " was exported in train mode; call model.eval() before its export";
  for (auto write : function.getOps<WriteOp>()) {
    VariableOp variable = variables.lookup(write.getVariableAttr().getLeafReference());
    if (variable.getKind() != VariableKind::Buffer)
      return refuse(write) << "the entry @" << function.getName() << " writes '"
                           << variable.getDisplayName()
                           << "', which is not a buffer; an entry may only write buffers";
  }
  stopTraining(function);
  markResults(function);
  eraseDeadOps(block);
  for (Operation &op : block.without_terminator())
    setPhase(&op, Phase::Evaluate);
  return success();
}

/// Builds @update, which only writes the loss of the step; ps-optimizer adds the optimizer step.
void TrainingBuilder::buildUpdate() {
  OpBuilder builder(forward);
  Location loc = forward.getLoc();
  auto function = func::FuncOp::create(builder, loc, "update", builder.getFunctionType({}, {}));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  if (loss)
    stepLoss->writeLoss(builder, loc);
  func::ReturnOp::create(builder, loc);
  for (Operation &op : block->without_terminator())
    setPhase(&op, Phase::Update);
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

LogicalResult buildTraining(ModuleOp module, const AutodiffOptions &options) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward || forward.isExternal())
    return module.emitError("has no function @forward to differentiate");
  if (!forward.getBody().hasOneBlock())
    return forward.emitError("has several blocks, expected one");
  return TrainingBuilder(module, forward, options).build();
}

#define GEN_PASS_DEF_AUTODIFFPASS
#include "lib/Training/Passes.h.inc"

namespace {
struct AutodiffPass : impl::AutodiffPassBase<AutodiffPass> {
  using AutodiffPassBase::AutodiffPassBase;
  void runOnOperation() override {
    if (failed(checkLevel(getOperation(), Level::Imported, getArgument())))
      return signalPassFailure();
    AutodiffOptions options{loss,
                            splitList(differentiate),
                            splitList(freeze),
                            lossAverage,
                            splitList(batchDims),
                            evalMode,
                            scaleLoss,
                            inference,
                            splitList(keepOutputs)};
    if (failed(buildTraining(getOperation(), options)))
      signalPassFailure();
  }
};
} // namespace

} // namespace parashard::training
