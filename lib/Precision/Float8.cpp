// Quantizes the operands of linear layers to fp8 with scales.
#include "Float8.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/Stages.h"
#include <cmath>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::precision {

namespace {
/// Returns true if `value` is `other` or a view of `other`: a broadcast, reshape, transpose or
/// slice.
bool followsFrom(Value value, Value other) {
  while (value != other) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<BroadcastOp, ReshapeOp, TransposeOp, SliceOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return true;
}

template <typename Op, typename... Args>
Value make(OpBuilder &builder, Operation *user, Args &&...args) {
  auto op = Op::create(builder, user->getLoc(), std::forward<Args>(args)...);
  copyMarks(user, op);
  // Ops of the phases backward_input and backward_weight may both use the result. The new op is
  // therefore in backward_input, unless an operand is in backward_weight.
  auto isInBackwardWeight = [](Value value) {
    Operation *producer = value.getDefiningOp();
    return producer && getPhase(producer) == Phase::BackwardWeight;
  };
  if (getPhase(op) == Phase::BackwardWeight && llvm::none_of(op->getOperands(), isInBackwardWeight))
    setPhase(op, Phase::BackwardInput);
  return op->getResult(0);
}

Value broadcast(OpBuilder &builder, Operation *user, Value scale, RankedTensorType type) {
  return make<BroadcastOp>(builder, user, type.clone(builder.getF32Type()), scale,
                           llvm::ArrayRef<int64_t>());
}

/// Returns the largest |x| of a tensor (amax).
Value findLargest(OpBuilder &builder, Operation *user, Value value) {
  auto type = cast<RankedTensorType>(value.getType()).clone(builder.getF32Type());
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  Value wide = make<ConvertOp>(builder, user, type, value);
  Value size = make<AbsOp>(builder, user, type, wide);
  return make<ReduceOp>(builder, user, ReductionKind::Max, size, llvm::ArrayRef<int64_t>(dims));
}
} // namespace

Float8::Float8(ModuleOp module, const PrecisionSpec::Float8 &options)
    : module(module), options(options), linears(module, options), variables(module),
      hasTraining(module.lookupSymbol("micro_batch")) {}

LogicalResult Float8::run() {
  auto update = module.lookupSymbol<func::FuncOp>("update");
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function != update && function.getName() != "count")
      functions.push_back(function);
  bool any = false;
  for (func::FuncOp function : functions) {
    FunctionState state;
    state.trains = function.getName() == "micro_batch";
    llvm::DenseMap<int64_t, Linear> byOrigin;
    if (failed(quantizeForward(function, state, byOrigin)) ||
        failed(quantizeBackward(function, state, byOrigin)))
      return failure();
    any |= !state.taken.empty();
  }
  if (!any)
    warnFlag(module, "precision fp8") << ": the model has no linear layer that is computed in fp8";
  if (update)
    for (const DelayedScale &delayed : scales) {
      OpBuilder builder(update.getBody().front().getTerminator());
      writeHistory(builder, delayed);
    }
  return linears.reportMisfits();
}

LogicalResult Float8::quantizeForward(func::FuncOp function, FunctionState &state,
                                      llvm::DenseMap<int64_t, Linear> &byOrigin) {
  Block &block = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    std::optional<Linear> linear = linears.match(&op);
    if (!linear)
      continue;
    if (unsigned number = state.taken[linear->name]++)
      linear->name += "." + std::to_string(number);
    if (!linears.fits(*linear, /*isReported=*/state.trains || !hasTraining))
      continue;
    if (auto origin = op.getAttrOfType<IntegerAttr>(kOriginMark))
      byOrigin[origin.getInt()] = *linear;
    unsigned weight = linear->weightIsLeft ? 0 : 1;
    if (failed(
            quantize(state, &op, 1 - weight, Float8Format::E4M3, linear->name + ".input", true)) ||
        failed(quantize(state, &op, weight, Float8Format::E4M3, linear->name + ".weight", true)))
      return failure();
  }
  return success();
}

LogicalResult Float8::quantizeBackward(func::FuncOp function, FunctionState &state,
                                       const llvm::DenseMap<int64_t, Linear> &byOrigin) {
  Block &block = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    auto origin = op.getAttrOfType<IntegerAttr>(kOriginMark);
    auto known = origin ? byOrigin.find(origin.getInt()) : byOrigin.end();
    if (!isa<ContractOp>(op) || !isBackward(&op) || known == byOrigin.end())
      continue;
    const Linear &linear = known->second;
    auto getKind = [&](unsigned i) -> StringRef {
      Value value = op.getOperand(i);
      if (followsFrom(value, linear.input))
        return ".input";
      return getReadVariable(value) && getReadVariable(value) == getReadVariable(linear.weight)
                 ? ".weight"
                 : ".gradient";
    };
    StringRef kinds[] = {getKind(0), getKind(1)};
    if ((kinds[0] == ".gradient") == (kinds[1] == ".gradient"))
      continue; // both operands or neither operand is an output gradient
    for (unsigned i : {0u, 1u}) {
      bool isGradient = kinds[i] == ".gradient";
      Float8Format format = isGradient ? Float8Format::E5M2 : Float8Format::E4M3;
      if (failed(quantize(state, &op, i, format, linear.name + kinds[i].str(), isGradient)))
        return failure();
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Quantization
//===----------------------------------------------------------------------===//

LogicalResult Float8::quantize(FunctionState &state, Operation *op, unsigned i, Float8Format format,
                               const std::string &name, bool isRecorded) {
  Value value = op->getOperand(i);
  auto type = cast<RankedTensorType>(value.getType());
  OpBuilder builder(op);
  bool isWeight = StringRef(name).ends_with(".weight");
  // A weight is quantized again for each use. A shared result would be sent between stages, and
  // kept from forward to backward.
  Quantized known = isWeight ? Quantized() : state.quantized.lookup({value, unsigned(format)});
  if (!known.bits) {
    FailureOr<Value> scale = getScale(state, builder, op, value, format, name, isRecorded);
    if (failed(scale))
      return failure();
    known = {make<QuantizeOp>(builder, op, type.clone(getElement(format)), value,
                              broadcast(builder, op, *scale, type)),
             *scale};
    if (!isWeight)
      state.quantized[{value, unsigned(format)}] = known;
  }
  // Each use has its own dequantize, so that forward saves the 8-bit value for backward.
  auto dequantize = DequantizeOp::create(builder, op->getLoc(), type, known.bits,
                                         broadcast(builder, op, known.scale, type));
  copyMarks(op, dequantize);
  op->setOperand(i, dequantize);
  return success();
}

FloatType Float8::getElement(Float8Format format) {
  MLIRContext *context = module.getContext();
  if (format == Float8Format::E4M3)
    return Float8E4M3FNType::get(context);
  return Float8E5M2Type::get(context);
}

FailureOr<Value> Float8::getScale(FunctionState &state, OpBuilder &builder, Operation *user,
                                  Value value, Float8Format format, const std::string &name,
                                  bool isRecorded) {
  if (!options.delayed || !state.trains) {
    Value &known = state.largest[value];
    if (!known)
      known = findLargest(builder, user, value);
    return make<Float8ScaleOp>(builder, user, known.getType(), format, known, options.margin);
  }
  FailureOr<DelayedScale> delayed = getDelayedScale(name, format);
  if (failed(delayed))
    return failure();
  if (isRecorded) {
    Value largest = findLargest(builder, user, value);
    auto accumulate =
        makeAccumulate(builder, user->getLoc(), delayed->now, largest, ReductionKind::Max);
    copyMarks(largest.getDefiningOp(), accumulate);
  }
  VariableOp scale = delayed->scale;
  return make<ReadOp>(builder, user, scale.getTensorType(),
                      FlatSymbolRefAttr::get(scale.getSymNameAttr()), Value());
}

FailureOr<Float8::DelayedScale> Float8::getDelayedScale(const std::string &name,
                                                        Float8Format format) {
  if (auto known = scaleIndices.find(name); known != scaleIndices.end())
    return scales[known->second];
  std::string symbol = "fp8." + name;
  auto scalar = RankedTensorType::get({}, Float32Type::get(module.getContext()));
  auto list = RankedTensorType::get({options.history}, scalar.getElementType());
  auto fill = [](RankedTensorType type, float x) { return DenseElementsAttr::get(type, x); };
  auto scale = variables.add(VariableKind::Buffer, symbol + ".scale", scalar, {}, fill(scalar, 1));
  if (failed(scale))
    return failure();
  auto history =
      variables.add(VariableKind::Buffer, symbol + ".amax.history", list, *scale, fill(list, 0));
  auto now = variables.add(VariableKind::Accumulator, symbol + ".amax.now", scalar, *scale,
                           fill(scalar, 0));
  if (failed(history) || failed(now))
    return failure();
  (*scale).setTransient(true);
  (*history).setTransient(true);
  scaleIndices[name] = scales.size();
  scales.push_back({*scale, *history, *now, format});
  return scales.back();
}

/// Shifts the history by one step, appends this step's amax, and computes the scale from the
/// history. An amax that is not finite is replaced by 0, and does not affect the scale. Example:
/// history [2, 4, 1] and amax 3 give [4, 1, 3].
void Float8::writeHistory(OpBuilder &builder, const DelayedScale &delayed) const {
  VariableOp scale = delayed.scale, history = delayed.history, now = delayed.now;
  Location loc = scale.getLoc();
  Operation *before = builder.getInsertionPoint()->getPrevNode();
  auto one = RankedTensorType::get({1}, builder.getF32Type());
  auto truth = RankedTensorType::get({1}, builder.getI1Type());
  Value largest = ReshapeOp::create(builder, loc, one, makeRead(builder, loc, now));
  Value zero = makeConstant(builder, loc, one, 0);
  Value isFinite = CompareOp::create(builder, loc, truth, Predicate::Lt, largest,
                                     makeConstant(builder, loc, one, INFINITY));
  Value steps = SelectOp::create(builder, loc, one, isFinite, largest, zero);
  if (options.history > 1) {
    Value kept =
        SliceOp::create(builder, loc, makeRead(builder, loc, history), 0, 1, options.history);
    steps = ConcatOp::create(builder, loc, history.getTensorType(), ValueRange{kept, steps}, 0);
  }
  makeWrite(builder, loc, history, steps);
  Value amax =
      ReduceOp::create(builder, loc, ReductionKind::Max, steps, llvm::ArrayRef<int64_t>{0});
  makeWrite(
      builder, loc, scale,
      Float8ScaleOp::create(builder, loc, amax.getType(), delayed.format, amax, options.margin));
  makeWrite(builder, loc, now, makeConstant(builder, loc, now.getTensorType(), 0));
  for (Operation *op = before ? before->getNextNode() : &builder.getBlock()->front();
       op != &*builder.getInsertionPoint(); op = op->getNextNode())
    setPhase(op, Phase::Update);
}

} // namespace parashard::precision
