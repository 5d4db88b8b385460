// Splits a loss into means over counted elements, a sum over the batch, and a rest that is averaged
// over the micro-batches.
#include "LossForm.h"
#include "BatchSums.h"
#include "IgnoredRows.h"
#include "lib/IR/Symbols.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <cmath>

using namespace mlir;
using namespace parashard;
using namespace parashard::training;
using namespace parashard::ir;
using namespace parashard::ps;

/// Returns the value of a constant with one element; nullopt for other values.
static std::optional<double> getConstant(Value value) {
  auto op = value.getDefiningOp<ConstantOp>();
  if (!op)
    return std::nullopt;
  if (op.getValue().getNumElements() != 1)
    return std::nullopt;
  return Tensor::fromAttr(op.getValue()).get(0);
}

/// Returns true if the variable that `read` reads has the same value in all steps.
static bool isFixed(ReadOp read) {
  auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(read, read.getVariableAttr());
  if (!variable)
    return false;
  switch (variable.getKind()) {
  case VariableKind::Constant:
    return true;
  case VariableKind::Buffer:
    return llvm::none_of(read->getBlock()->getOps<WriteOp>(), [&](WriteOp write) {
      return write.getVariableAttr() == read.getVariableAttr();
    });
  case VariableKind::Parameter:
    return variable.getFrozen();
  default:
    return false;
  }
}

/// Returns true for a sum over elements, possibly scaled by a constant, negated, converted or
/// reshaped, and for an addition of such sums.
static bool isSum(Value value) {
  if (auto op = value.getDefiningOp<ReduceOp>())
    return op.getKind() == ReductionKind::Sum;
  if (Operation *op = value.getDefiningOp()) {
    if (isa<ConvertOp, NegOp, ReshapeOp, StopGradientOp>(op))
      return isSum(op->getOperand(0));
    if (isa<AddOp>(op))
      return isSum(op->getOperand(0)) && isSum(op->getOperand(1));
    if (isa<MulOp>(op))
      return (getConstant(op->getOperand(0)) && isSum(op->getOperand(1))) ||
             (getConstant(op->getOperand(1)) && isSum(op->getOperand(0)));
  }
  return false;
}

/// Returns true if `matches` returns true for one of the ops from which `value` is computed. Calls
/// `matches` with null for function arguments.
static bool isComputedFrom(Value value, llvm::function_ref<bool(Operation *)> matches) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  llvm::SmallVector<Value> todo{value};
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val().getDefiningOp();
    if (matches(op))
      return true;
    if (op && seen.insert(op).second)
      todo.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// Returns true if `value` does not depend on a variable that changes in training.
static bool isIndependentOfVariables(Value value) {
  return !isComputedFrom(value, [](Operation *op) {
    auto read = dyn_cast_or_null<ReadOp>(op);
    return read && !isFixed(read);
  });
}

static bool isRandom(Operation *op) { return isa_and_nonnull<RandomOpInterface>(op); }

/// Returns true if `value` depends on a function argument or on random numbers, which differ
/// between batches.
static bool dependsOnBatch(Value value) {
  return isComputedFrom(value, [](Operation *op) { return !op || isRandom(op); });
}

/// Returns true if the computation of `loss` has a division by a value that depends on the batch.
/// Goes back from the loss only through values with one element.
static bool isDividedByCount(Value loss) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  llvm::SmallVector<Value> todo{loss};
  while (!todo.empty()) {
    Value value = todo.pop_back_val();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    Operation *op = value.getDefiningOp();
    if (!type || type.getNumElements() != 1 || !op || !seen.insert(op).second)
      continue;
    if (auto div = dyn_cast<DivOp>(op); div && dependsOnBatch(div.getRhs()))
      return true;
    todo.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// Returns true if the loss is not a linear combination of sums over samples and of values that
/// depend on no sample.
static bool isNotMultipleOfSums(Value loss, const BatchSums &batch) {
  Operation *op = loss.getDefiningOp();
  auto isNotMultiple = [&](Value value) { return isNotMultipleOfSums(value, batch); };
  if (!op || !dependsOnBatch(loss) || batch.getSamples(loss) > 0)
    return false;
  if (isa<AddOp, SubOp, NegOp, ConvertOp, ReshapeOp, StopGradientOp>(op))
    return llvm::any_of(op->getOperands(), isNotMultiple);
  if (isa<MulOp>(op) && !dependsOnBatch(op->getOperand(0)))
    return isNotMultiple(op->getOperand(1));
  if (isa<MulOp, DivOp>(op) && !dependsOnBatch(op->getOperand(1)))
    return isNotMultiple(op->getOperand(0));
  return batch.isOtherThanSum(loss);
}

/// Returns true if `value` has a summand that does not depend on the batch. Each batch adds such a
/// summand once, for any number of samples. Example: `loss.sum() + 3`.
static bool addsConstant(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<AddOp, SubOp>(op))
    return llvm::any_of(op->getOperands(), [](Value operand) {
      return !dependsOnBatch(operand) || addsConstant(operand);
    });
  if (isa_and_nonnull<MulOp, DivOp, NegOp, ConvertOp, ReshapeOp, StopGradientOp>(op))
    return llvm::any_of(op->getOperands(), [](Value operand) {
      return dependsOnBatch(operand) && addsConstant(operand);
    });
  return false;
}

/// Returns true if a part is divided by a count that depends on the batch.
static bool isCounted(const LossPart &part) { return part.count && dependsOnBatch(part.count); }

bool training::isUneven(llvm::ArrayRef<LossPart> parts) {
  Value first = parts.front().value;
  BatchSums batch(*first.getParentBlock());
  return llvm::any_of(parts, [&](const LossPart &part) {
    return (part.kind == LossPart::Kind::Average && isDividedByCount(part.value)) ||
           (isCounted(part) && addsConstant(part.value)) ||
           isNotMultipleOfSums(part.value, batch) ||
           llvm::any_of(part.counted, [&](Value sum) { return isNotMultipleOfSums(sum, batch); });
  });
}

bool training::areRowSums(OpBuilder &builder, llvm::ArrayRef<LossPart> parts) {
  Value first = parts.front().value;
  BatchSums batch(*first.getParentBlock());
  return llvm::none_of(parts, [&](const LossPart &part) {
    std::optional<CountForm> form = part.count ? findCountForm(builder, part) : std::nullopt;
    Value count = form ? form->sum : part.count;
    return isNotMultipleOfSums(part.value, batch) || (count && isNotMultipleOfSums(count, batch)) ||
           (isCounted(part) && (addsConstant(part.value) || addsConstant(count)));
  });
}

bool training::ignoresRows(llvm::ArrayRef<LossPart> parts) {
  Value first = parts.front().value;
  Block &block = *first.getParentBlock();
  BatchSums batch(block);
  IgnoredRows ignored(block);
  auto isIgnored = [&](Value sum) {
    return ignored.isZero(sum) && !isNotMultipleOfSums(sum, batch);
  };
  bool writes = llvm::any_of(block.getOps<WriteOp>(),
                             [](WriteOp write) { return dependsOnBatch(write.getValue()); });
  return !writes && llvm::all_of(parts, [&](const LossPart &part) {
    if (part.kind == LossPart::Kind::Average)
      return !dependsOnBatch(part.value);
    return isIgnored(part.value) && llvm::all_of(part.counted, isIgnored);
  });
}

//===----------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------===//

/// Finds the sums from which a scalar is computed by elementwise ops. Returns false if the scalar
/// also depends on the batch in another way. Example: finds `mask.sum()` for
/// `mask.sum().clamp(min=1)`.
static bool findCounted(Value value, llvm::SmallVectorImpl<Value> &sums) {
  if (!dependsOnBatch(value))
    return true;
  if (isSum(value) && !addsConstant(value)) {
    if (!llvm::is_contained(sums, value))
      sums.push_back(value);
    return true;
  }
  Operation *op = value.getDefiningOp();
  auto lowering = dyn_cast_or_null<LoweringOpInterface>(op);
  bool isElementwise = isa_and_nonnull<ReshapeOp>(op) ||
                       (lowering && lowering.getLoweringKind() == LoweringKind::Elementwise &&
                        cast<RankedTensorType>(value.getType()).getNumElements() == 1);
  return isElementwise &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return findCounted(operand, sums); });
}

static LossPart makeMean(Value sum, Value count) {
  LossPart mean{LossPart::Kind::Mean, sum, count, {}};
  llvm::SmallVector<Value> sums;
  if (findCounted(count, sums) && !sums.empty())
    mean.counted.assign(sums.begin(), sums.end());
  else
    mean.counted = {count};
  return mean;
}

static void copyBetween(OpBuilder &builder, Value value, IRMapping &values) {
  if (values.contains(value))
    return;
  Operation *op = value.getDefiningOp();
  if (!isa<ConstantOp>(op) && !dependsOnBatch(value))
    return values.map(value, value);
  for (Value operand : op->getOperands())
    copyBetween(builder, operand, values);
  builder.clone(*op, values);
}

Value training::recount(OpBuilder &builder, const LossPart &mean, ValueRange counted) {
  IRMapping values;
  values.map(mean.counted, counted);
  copyBetween(builder, mean.count, values);
  return values.lookup(mean.count);
}

/// Adds two values with one element each. The result has the type of `x`.
static Value addInType(OpBuilder &builder, Value x, Value y) {
  auto type = cast<RankedTensorType>(x.getType());
  y = makeConvert(builder, x.getLoc(), y, type.getElementType());
  if (y.getType() != type)
    y = ReshapeOp::create(builder, x.getLoc(), type, y);
  return AddOp::create(builder, x.getLoc(), x, y);
}

/// Matches `max(x, least)` or `select(x < least, least, x)`, where `least` does not depend on the
/// batch. Returns {x, least}.
static std::optional<std::pair<Value, Value>> matchLeast(Operation *op) {
  if (auto max = dyn_cast<MaxOp>(op)) {
    if (!dependsOnBatch(max.getRhs()))
      return std::pair(max.getLhs(), max.getRhs());
    return dependsOnBatch(max.getLhs()) ? std::nullopt
                                        : std::optional(std::pair(max.getRhs(), max.getLhs()));
  }
  auto select = dyn_cast<SelectOp>(op);
  auto compare = select ? select.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  if (!compare || compare.getPredicate() != Predicate::Lt || dependsOnBatch(compare.getRhs()) ||
      select.getOnTrue() != compare.getRhs() || select.getOnFalse() != compare.getLhs())
    return std::nullopt;
  return std::pair(compare.getLhs(), compare.getRhs());
}

static std::optional<CountForm> findForm(OpBuilder &builder, Value value, Value sum) {
  if (value == sum)
    return CountForm{sum, {}, {}};
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<ConvertOp, ReshapeOp, StopGradientOp>(op))
    return findForm(builder, op->getOperand(0), sum);
  if (!op)
    return std::nullopt;
  if (auto least = matchLeast(op)) {
    std::optional<CountForm> inner = findForm(builder, least->first, sum);
    if (!inner || inner->least)
      return std::nullopt;
    inner->least = least->second;
    return inner;
  }
  if (!isa<AddOp>(op) || (dependsOnBatch(op->getOperand(0)) && dependsOnBatch(op->getOperand(1))))
    return std::nullopt;
  unsigned added = dependsOnBatch(op->getOperand(0)) ? 1 : 0;
  Value plus = op->getOperand(added);
  std::optional<CountForm> inner = findForm(builder, op->getOperand(1 - added), sum);
  if (!inner)
    return std::nullopt;
  if (inner->least)
    inner->least = addInType(builder, inner->least, plus);
  inner->plus = inner->plus ? addInType(builder, inner->plus, plus) : plus;
  return inner;
}

std::optional<CountForm> training::findCountForm(OpBuilder &builder, const LossPart &mean) {
  if (mean.counted.size() != 1)
    return std::nullopt;
  return findForm(builder, mean.count, mean.counted.front());
}

//===----------------------------------------------------------------------===//
// Means over a static number of elements
//===----------------------------------------------------------------------===//

/// Returns 1 / factor, rounded to an integer if the relative error is below 1e-6. Example: 3 for
/// 0.33333334.
static double invert(double factor) {
  double count = 1 / factor, whole = std::round(count);
  return std::abs(count - whole) < 1e-6 * std::abs(count) ? whole : count;
}

/// Returns true if a scalar is computed from a mean over samples: a sum that is divided by a
/// multiple of the number of samples. The means of several batches do not add up to the mean of all
/// samples.
static bool containsMean(Value value, const BatchSums &batch) {
  Operation *op = value.getDefiningOp();
  if (!op || cast<RankedTensorType>(value.getType()).getNumElements() != 1)
    return false;
  auto isMultiple = [](std::optional<double> divisor, int64_t samples) {
    return divisor && samples > 0 && std::abs(*divisor) >= samples &&
           std::fmod(*divisor, samples) == 0;
  };
  if (auto div = dyn_cast<DivOp>(op);
      div && isMultiple(getConstant(div.getRhs()), batch.getSamples(div.getLhs())))
    return true;
  if (auto mul = dyn_cast<MulOp>(op))
    for (unsigned factor : {0u, 1u}) {
      std::optional<double> constant = getConstant(mul->getOperand(factor));
      if (constant && *constant != 0 &&
          isMultiple(invert(*constant), batch.getSamples(mul->getOperand(1 - factor))))
        return true;
    }
  return llvm::any_of(op->getOperands(),
                      [&](Value operand) { return containsMean(operand, batch); });
}

static std::optional<LossPart> findStaticMean(OpBuilder &builder, Value loss);

static std::optional<LossPart> matchScaledMean(OpBuilder &builder, MulOp op) {
  for (auto [value, other] :
       {std::pair<Value, Value>(op.getLhs(), op.getRhs()), {op.getRhs(), op.getLhs()}}) {
    auto factor = getConstant(other);
    if (!factor)
      continue;
    if (auto inner = findStaticMean(builder, value)) {
      inner->value = MulOp::create(builder, op.getLoc(), op.getType(), inner->value, other);
      return inner;
    }
    if (*factor > 0 && isSum(value))
      return makeMean(value, makeConstant(builder, op.getLoc(),
                                          cast<RankedTensorType>(op.getType()), invert(*factor)));
  }
  return std::nullopt;
}

/// Clones an op with one result, and sets the element type of the result to `element`.
static Value cloneWithElement(OpBuilder &builder, Operation *op, IRMapping &mapping, Type element) {
  Value result = builder.clone(*op, mapping)->getResult(0);
  result.setType(cast<RankedTensorType>(result.getType()).clone(element));
  return result;
}

/// Clones an op on scalars, with `value` as its first operand.
static Value rebuild(OpBuilder &builder, Operation *op, Value value) {
  Type from = getElementTypeOrSelf(value.getType()),
       to = getElementTypeOrSelf(op->getResult(0).getType());
  if (isa<ConvertOp>(op)) {
    // `value` is a sum that is not divided yet, and may overflow the narrower type.
    bool narrows = isa<FloatType>(from) && isa<FloatType>(to) &&
                   to.getIntOrFloatBitWidth() < from.getIntOrFloatBitWidth();
    return narrows ? value : makeConvert(builder, op->getLoc(), value, to);
  }
  IRMapping mapping;
  mapping.map(op->getOperand(0), value);
  return cloneWithElement(builder, op, mapping, from);
}

/// Matches a loss that is a sum divided by a constant, or multiplied by a constant.
static std::optional<LossPart> findStaticMean(OpBuilder &builder, Value loss) {
  Operation *op = loss.getDefiningOp();
  if (auto div = dyn_cast_or_null<DivOp>(op))
    if (isSum(div.getLhs()) && isIndependentOfVariables(div.getRhs()) &&
        !dependsOnBatch(div.getRhs()))
      return makeMean(div.getLhs(), div.getRhs());
  if (auto mul = dyn_cast_or_null<MulOp>(op))
    return matchScaledMean(builder, mul);
  if (!isa_and_nonnull<ConvertOp, ReshapeOp>(op))
    return std::nullopt;
  auto inner = findStaticMean(builder, op->getOperand(0));
  if (!inner)
    return std::nullopt;
  return makeMean(rebuild(builder, op, inner->value), rebuild(builder, op, inner->count));
}

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

namespace {
/// Constants by which a term is multiplied or divided on its path to the loss.
struct Scale {
  llvm::SmallVector<std::pair<double, Location>> factors, divisors;
};

class Splitter {
public:
  explicit Splitter(OpBuilder &builder) : builder(builder) {}

  llvm::SmallVector<LossPart> split(Value value, const Scale &scale) {
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<ConvertOp, ReshapeOp, StopGradientOp>(op))
      return splitView(op, scale);
    if (isa_and_nonnull<NegOp>(op))
      return negate(split(op->getOperand(0), scale), op->getLoc());
    if (isa_and_nonnull<AddOp, SubOp>(op)) {
      llvm::SmallVector<LossPart> parts = split(op->getOperand(0), scale);
      llvm::SmallVector<LossPart> more = split(op->getOperand(1), scale);
      if (isa<SubOp>(op))
        more = negate(std::move(more), op->getLoc());
      for (const LossPart &part : more)
        add(parts, part);
      return parts;
    }
    if (auto mul = dyn_cast_or_null<MulOp>(op))
      for (unsigned factor : {0u, 1u})
        if (Value other = mul->getOperand(factor); !dependsOnBatch(other)) {
          Scale inner = scale;
          if (auto constant = getConstant(other))
            inner.factors.emplace_back(*constant, mul.getLoc());
          return splitScaled(mul, 1 - factor, inner);
        }
    if (auto div = dyn_cast_or_null<DivOp>(op)) {
      if (!dependsOnBatch(div.getRhs())) {
        Scale inner = scale;
        if (auto constant = getConstant(div.getRhs()))
          inner.divisors.emplace_back(*constant, div.getLoc());
        return splitScaled(div, 0, inner);
      }
      if (isSum(div.getLhs()) && isIndependentOfVariables(div.getRhs()) &&
          dependsOnBatch(div.getRhs()) && !isComputedFrom(div.getRhs(), isRandom) &&
          !containsMean(div.getRhs(), getBatch()))
        return {makeMean(div.getLhs(), div.getRhs())};
    }
    return {{isSumOfSamples(value, scale) ? LossPart::Kind::Sum : LossPart::Kind::Average,
             value,
             Value(),
             {}}};
  }

  /// Returns the location of a constant that was interpreted as the divisor of a mean over samples,
  /// but may have another meaning.
  std::optional<Location> getAmbiguous() const { return ambiguous; }

private:
  llvm::SmallVector<LossPart> splitView(Operation *op, const Scale &scale) {
    llvm::SmallVector<LossPart> parts = split(op->getOperand(0), scale);
    for (LossPart &part : parts) {
      Value value = rebuild(builder, op, part.value);
      if (part.count && !isa<StopGradientOp>(op))
        part = makeMean(value, convertCount(op, part.count));
      else
        part.value = value;
    }
    return parts;
  }

  /// Applies a conversion or reshape to a count. Reuses the result for all parts with this count,
  /// so that parts with equal counts still share one value.
  Value convertCount(Operation *op, Value count) {
    Value &known = counts[{op, count}];
    if (!known)
      known = rebuild(builder, op, count);
    return known;
  }

  llvm::SmallVector<LossPart> negate(llvm::SmallVector<LossPart> parts, Location loc) {
    for (LossPart &part : parts)
      part.value = NegOp::create(builder, loc, part.value.getType(), part.value);
    return parts;
  }

  /// Splits a multiplication or division by a value that does not depend on the batch. `inner` is
  /// the index of the other operand.
  llvm::SmallVector<LossPart> splitScaled(Operation *op, unsigned inner, const Scale &scale) {
    llvm::SmallVector<LossPart> parts = split(op->getOperand(inner), scale);
    for (LossPart &part : parts) {
      Type element = getElementTypeOrSelf(part.value.getType());
      Value other = op->getOperand(1 - inner);
      IRMapping mapping;
      mapping.map(op->getOperand(inner), part.value);
      mapping.map(other, makeConvert(builder, op->getLoc(), other, element));
      part.value = cloneWithElement(builder, op, mapping, element);
    }
    return parts;
  }

  /// Adds two terms in the wider of their types, since `rebuild` may leave terms in different
  /// types.
  Value addInWider(Value x, Value y) {
    Type ofX = getElementTypeOrSelf(x.getType()), ofY = getElementTypeOrSelf(y.getType());
    Type element = ofX.getIntOrFloatBitWidth() < ofY.getIntOrFloatBitWidth() ? ofY : ofX;
    Location loc = y.getLoc();
    return AddOp::create(builder, loc, makeConvert(builder, loc, x, element),
                         makeConvert(builder, loc, y, element));
  }

  void add(llvm::SmallVector<LossPart> &parts, const LossPart &part) {
    for (LossPart &known : parts)
      if (known.kind == part.kind && known.count == part.count) {
        known.value = addInWider(known.value, part.value);
        return;
      }
    parts.push_back(part);
  }

  /// Returns the sizes of the dims that the sum `value` reduces, divided by `samples` for the batch
  /// dim. Example: {3, 5} for a sum over [4 * 3, 5] with 4 samples.
  llvm::SmallVector<double> listSummed(Value value, int64_t samples) {
    llvm::SmallVector<double> sizes;
    bool found = false;
    auto isBatch = [&](ReduceOp reduce, int64_t dim, int64_t size) {
      int64_t known = batch->getBatchDim(reduce.getOperand());
      return !found && (known < 0 ? size % samples == 0 : known == dim);
    };
    while (Operation *op = value.getDefiningOp()) {
      if (auto reduce = dyn_cast<ReduceOp>(op))
        for (int64_t dim : reduce.getDims()) {
          int64_t size = cast<RankedTensorType>(reduce.getOperand().getType()).getDimSize(dim);
          bool has = isBatch(reduce, dim, size);
          found |= has;
          sizes.push_back(has ? double(size) / samples : size);
        }
      else if (!isa<ConvertOp, NegOp, ReshapeOp>(op))
        break;
      value = op->getOperand(0);
    }
    return sizes;
  }

  static bool isProductOfSome(double value, llvm::ArrayRef<double> sizes) {
    if (value == 1 || sizes.empty())
      return value == 1;
    return isProductOfSome(value / sizes.front(), sizes.drop_front()) ||
           isProductOfSome(value, sizes.drop_front());
  }

  const BatchSums &getBatch() {
    if (!batch)
      batch.emplace(*builder.getInsertionBlock());
    return *batch;
  }

  /// Returns true if `value` is a sum over samples that no constant turns into a mean. Two kinds of
  /// constants give a mean: a divisor that is a multiple of the number of samples, and a factor of
  /// 1 / (number of summed elements). Sets `ambiguous` for such a factor. Also sets it for such
  /// divisors, unless their product is the number of samples times the sizes of some reduced dims.
  /// Example: the sum over [4 samples, 3] divided by 12 is not ambiguous, divided by 8 it is.
  bool isSumOfSamples(Value value, const Scale &scale) {
    int64_t samples = getBatch().getSamples(value);
    if (samples == 0)
      return false;
    llvm::SmallVector<double> sizes = listSummed(value, samples);
    // The product of the divisors that are multiples of the number of samples. There are two such
    // divisors if a mean over samples is divided by the number of samples again.
    double divided = 1;
    std::optional<Location> counts;
    for (auto [divisor, loc] : scale.divisors)
      if (divisor != 0 && std::fmod(divisor, samples) == 0) {
        divided *= std::abs(divisor);
        counts = counts.value_or(loc);
      }
    if (counts) {
      if (!isProductOfSome(divided / samples, sizes))
        ambiguous = counts;
      return false;
    }
    double summed = samples;
    for (double size : sizes)
      summed *= size;
    for (auto [factor, loc] : scale.factors)
      if (factor != 0 && std::abs(invert(factor)) == summed) {
        ambiguous = loc;
        return false;
      }
    return true;
  }

  OpBuilder &builder;
  std::optional<BatchSums> batch; ///< created on first use
  std::optional<Location> ambiguous;
  llvm::DenseMap<std::pair<Operation *, Value>, Value> counts;
};
} // namespace

llvm::SmallVector<LossPart> training::splitLoss(OpBuilder &builder, Value loss,
                                                std::optional<Location> *ambiguous) {
  Splitter splitter(builder);
  llvm::SmallVector<LossPart> parts = splitter.split(loss, {});
  if (ambiguous)
    *ambiguous = splitter.getAmbiguous();
  if (parts.size() == 1 && parts.front().kind == LossPart::Kind::Average) {
    if (auto mean = findStaticMean(builder, loss))
      return {*mean};
    parts.front().value = loss;
  }
  llvm::SmallVector<LossPart> sorted;
  for (LossPart::Kind kind : {LossPart::Kind::Mean, LossPart::Kind::Sum, LossPart::Kind::Average})
    llvm::copy_if(parts, std::back_inserter(sorted),
                  [&](const LossPart &part) { return part.kind == kind; });
  return sorted;
}
