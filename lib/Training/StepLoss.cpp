// Builds the ops that accumulate the parts of a loss over the micro-batches of a step.
#include "StepLoss.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::training;
using namespace parashard::ir;
using namespace parashard::ps;

/// Returns the symbol for a part: `loss.count` for part 0, `loss.count.1` for part 1, ...
static std::string number(llvm::StringRef symbol, unsigned part) {
  return part == 0 ? symbol.str() : (symbol + "." + llvm::Twine(part)).str();
}

StepLoss::StepLoss(llvm::ArrayRef<LossPart> parts, RankedTensorType type) : type(type) {
  for (const LossPart &part : parts) {
    kinds.push_back(part.kind);
    numCounted.push_back(part.isCountedDirectly() ? 0 : part.counted.size());
  }
}

bool StepLoss::needsCount() const { return kinds.size() > 1 || numCounted.front() > 0; }

LogicalResult StepLoss::addVariables(VariableTable &variables) {
  auto add = [&](llvm::StringRef symbol, VariableOp &variable) -> LogicalResult {
    auto added = variables.add(VariableKind::Accumulator, symbol, type);
    if (succeeded(added))
      variable = *added;
    return success(succeeded(added));
  };
  if (failed(add(kLossSymbol, loss)) || failed(add(kLossSumSymbol, sum)) ||
      failed(add(kLossCountSymbol, count)))
    return failure();
  unsigned numbered = 0;
  for (unsigned part = 0; part < kinds.size() && kinds[part] == Kind::Mean; ++part) {
    llvm::SmallVector<VariableOp> &own = counted.emplace_back(std::max(numCounted[part], 1u));
    if (part == 0 && numCounted[part] == 0) {
      own.front() = count;
      continue;
    }
    for (VariableOp &variable : own)
      if (failed(add(number(kLossCountedSymbol, numbered++), variable)))
        return failure();
  }
  bool averages = needsCount() && llvm::is_contained(kinds, Kind::Average);
  return averages ? add(kMicroBatchesSymbol, microBatches) : success();
}

std::string StepLoss::describe() const {
  std::string text;
  for (auto [kind, name] :
       {std::pair(Kind::Mean, "step"), {Kind::Sum, "sum"}, {Kind::Average, "micro-batch"}})
    if (llvm::is_contained(kinds, kind))
      text += (text.empty() ? "" : "+") + std::string(name);
  return text;
}

/// Converts and reshapes a value with one element to another type with one element.
static Value changeType(OpBuilder &builder, Value value, RankedTensorType type) {
  Location loc = value.getLoc();
  value = makeConvert(builder, loc, value, type.getElementType());
  return value.getType() == type ? value : ReshapeOp::create(builder, loc, type, value);
}

Value StepLoss::widen(OpBuilder &builder, Value value) { return changeType(builder, value, type); }

void StepLoss::accumulateCounts(OpBuilder &builder, llvm::ArrayRef<LossPart> parts) {
  for (auto [part, own] : llvm::zip(parts, counted))
    for (auto [value, variable] : llvm::zip(part.counted, own))
      makeAccumulate(builder, value.getLoc(), variable, widen(builder, value));
  Location loc = parts.front().value.getLoc();
  if (microBatches)
    makeAccumulate(builder, loc, microBatches, makeConstant(builder, loc, type, 1));
}

Value StepLoss::makeCount(OpBuilder &builder, const LossPart &mean, unsigned part) {
  llvm::SmallVector<Value> totals;
  for (VariableOp variable : counted[part])
    totals.push_back(makeRead(builder, mean.value.getLoc(), variable));
  if (numCounted[part] == 0)
    return totals.front();
  for (auto [value, total] : llvm::zip(mean.counted, totals))
    total = changeType(builder, total, cast<RankedTensorType>(value.getType()));
  return widen(builder, recount(builder, mean, totals));
}

Value StepLoss::makeFactor(OpBuilder &builder, const LossPart &term, unsigned part, Value count) {
  Location loc = term.value.getLoc();
  if (term.kind == Kind::Sum)
    return count;
  bool isMean = term.kind == Kind::Mean;
  Value other = isMean ? makeCount(builder, term, part) : makeRead(builder, loc, microBatches);
  Value factor =
      DivOp::create(builder, loc, type, count ? count : makeConstant(builder, loc, type, 1), other);
  if (!isMean)
    return factor;
  Value zero = makeConstant(builder, loc, type, 0);
  auto boolType = RankedTensorType::get({}, builder.getI1Type());
  Value isCounted = CompareOp::create(builder, loc, boolType, Predicate::Ne, other, zero);
  return SelectOp::create(builder, loc, type, isCounted, factor, zero);
}

Value StepLoss::combine(OpBuilder &builder, llvm::ArrayRef<LossPart> parts) {
  const LossPart &first = parts.front();
  Value stepCount = first.kind == Kind::Mean ? makeCount(builder, first, 0) : Value();
  if (numCounted.front() > 0)
    makeWrite(builder, first.value.getLoc(), count,
              stepCount); // every micro-batch writes the same value
  Value total = widen(builder, first.value);
  for (auto [i, term] : llvm::enumerate(parts.drop_front())) {
    Location loc = term.value.getLoc();
    Value value = widen(builder, term.value);
    if (Value factor = makeFactor(builder, term, i + 1, stepCount))
      value = MulOp::create(builder, loc, type, factor, value);
    total = AddOp::create(builder, loc, type, total, value);
  }
  return total;
}

Value StepLoss::accumulate(OpBuilder &builder, llvm::ArrayRef<LossPart> parts) {
  const LossPart &first = parts.front();
  Location loc = first.value.getLoc();
  Value total = needsCount() ? combine(builder, parts) : first.value;
  makeAccumulate(builder, loc, sum, widen(builder, total));
  if (first.kind == Kind::Mean) {
    if (!needsCount())
      makeAccumulate(builder, loc, count, widen(builder, first.count));
    return total;
  }
  Value one = makeConstant(builder, loc, type, 1);
  if (first.kind == Kind::Sum)
    makeWrite(builder, loc, count, one); // each micro-batch writes 1, so the count of a step is 1
  else
    makeAccumulate(builder, loc, count, one);
  return total;
}

llvm::SmallVector<std::pair<std::string, Value>>
StepLoss::makeResults(OpBuilder &builder, llvm::ArrayRef<LossPart> parts) {
  llvm::SmallVector<std::pair<std::string, Value>> results;
  for (auto [part, term] : llvm::enumerate(parts)) {
    results.push_back({number(kLossSumSymbol, part), widen(builder, term.value)});
    std::optional<CountForm> form =
        term.count ? findCountForm(builder, term) : std::optional<CountForm>();
    Value counted = form         ? widen(builder, form->sum)
                    : term.count ? widen(builder, term.count)
                                 : makeConstant(builder, term.value.getLoc(), type, 1);
    results.push_back({number(kLossCountSymbol, part), counted});
    if (form && form->plus)
      results.push_back({number(kLossPlusSymbol, part), widen(builder, form->plus)});
    if (form && form->least)
      results.push_back({number(kLossLeastSymbol, part), widen(builder, form->least)});
  }
  return results;
}

void StepLoss::writeLoss(OpBuilder &builder, Location loc) {
  auto boolType = RankedTensorType::get({}, builder.getI1Type());
  Value total = makeRead(builder, loc, sum), divisor = makeRead(builder, loc, count);
  Value zero = makeConstant(builder, loc, type, 0);
  Value counted = CompareOp::create(builder, loc, boolType, Predicate::Ne, divisor, zero);
  Value mean = DivOp::create(builder, loc, type, total, divisor);
  makeWrite(builder, loc, loss, SelectOp::create(builder, loc, type, counted, mean, zero));
}
