// Accumulates the parts of a loss over the micro-batches of a step.
#include "StepLoss.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::ps;

/// `loss.count`, `loss.count.1`, ...
static std::string number(llvm::StringRef symbol, unsigned part) {
  return part == 0 ? symbol.str() : (symbol + "." + llvm::Twine(part)).str();
}

LogicalResult StepLoss::addVariables(VariableTable &variables) {
  auto add = [&](llvm::StringRef symbol, VariableOp &variable) -> LogicalResult {
    auto added = variables.add(VariableKind::Accumulator, symbol, type);
    if (succeeded(added))
      variable = *added;
    return success(succeeded(added));
  };
  unsigned means = llvm::count(kinds, LossPart::Kind::Mean);
  counts.resize(std::max(means, 1u));
  if (failed(add(kLossSymbol, loss)) || failed(add(kLossSumSymbol, sum)))
    return failure();
  for (auto [part, count] : llvm::enumerate(counts))
    if (failed(add(number(kLossCountSymbol, part), count)))
      return failure();
  return needsCount() ? add(kMicroBatchesSymbol, microBatches) : success();
}

std::string StepLoss::describe() const {
  std::string text;
  for (auto [kind, name] : {std::pair(LossPart::Kind::Mean, "step"),
                            {LossPart::Kind::Sum, "sum"},
                            {LossPart::Kind::Average, "micro-batch"}})
    if (llvm::is_contained(kinds, kind))
      text += (text.empty() ? "" : "+") + std::string(name);
  return text;
}

Value StepLoss::widen(OpBuilder &builder, Value value) {
  return makeConvert(builder, value.getLoc(), value, type.getElementType());
}

void StepLoss::accumulateCounts(OpBuilder &builder, llvm::ArrayRef<LossPart> parts) {
  for (auto [part, variable] : llvm::zip(parts, counts))
    if (part.kind == LossPart::Kind::Mean)
      makeAccumulate(builder, part.count.getLoc(), variable, widen(builder, part.count));
  Location loc = parts.front().value.getLoc();
  makeAccumulate(builder, loc, microBatches, makeConstant(builder, loc, type, 1));
}

Value StepLoss::makeFactor(OpBuilder &builder, Location loc, unsigned part, Value count) {
  if (kinds[part] == LossPart::Kind::Sum)
    return count;
  VariableOp variable = isMean(part) ? counts[part] : microBatches;
  Value other = makeRead(builder, loc, variable);
  Value factor =
      DivOp::create(builder, loc, type, count ? count : makeConstant(builder, loc, type, 1), other);
  if (!isMean(part))
    return factor;
  Value zero = makeConstant(builder, loc, type, 0);
  auto boolType = RankedTensorType::get({}, builder.getI1Type());
  Value counted = CompareOp::create(builder, loc, boolType, Predicate::Gt, other, zero);
  return SelectOp::create(builder, loc, type, counted, factor, zero);
}

Value StepLoss::combine(OpBuilder &builder, llvm::ArrayRef<LossPart> parts) {
  Location loc = parts.front().value.getLoc();
  Value count = isMean(0) ? makeRead(builder, loc, counts.front()) : Value();
  Value total;
  for (auto [part, term] : llvm::enumerate(parts)) {
    Value value = widen(builder, term.value);
    if (Value factor = part == 0 ? Value() : makeFactor(builder, loc, part, count))
      value = MulOp::create(builder, loc, type, factor, value);
    total = total ? AddOp::create(builder, loc, type, total, value) : value;
  }
  return total;
}

Value StepLoss::accumulate(OpBuilder &builder, llvm::ArrayRef<LossPart> parts) {
  const LossPart &first = parts.front();
  Location loc = first.value.getLoc();
  Value total = needsCount() ? combine(builder, parts) : first.value;
  makeAccumulate(builder, loc, sum, widen(builder, total));
  if (first.kind == LossPart::Kind::Mean) {
    if (!needsCount())
      makeAccumulate(builder, loc, counts.front(), widen(builder, first.count));
    return total;
  }
  Value one = makeConstant(builder, loc, type, 1);
  if (first.kind == LossPart::Kind::Sum)
    makeWrite(builder, loc, counts.front(), one); // once a step, however many micro-batches
  else
    makeAccumulate(builder, loc, counts.front(), one);
  return total;
}

llvm::SmallVector<std::pair<std::string, Value>>
StepLoss::makeResults(OpBuilder &builder, llvm::ArrayRef<LossPart> parts) {
  llvm::SmallVector<std::pair<std::string, Value>> results;
  for (auto [part, term] : llvm::enumerate(parts)) {
    results.push_back({number(kLossSumSymbol, part), widen(builder, term.value)});
    results.push_back({number(kLossCountSymbol, part),
                       term.count ? widen(builder, term.count)
                                  : makeConstant(builder, term.value.getLoc(), type, 1)});
  }
  return results;
}

void StepLoss::writeLoss(OpBuilder &builder, Location loc) {
  auto boolType = RankedTensorType::get({}, builder.getI1Type());
  Value total = makeRead(builder, loc, sum), count = makeRead(builder, loc, counts.front());
  Value zero = makeConstant(builder, loc, type, 0);
  Value counted = CompareOp::create(builder, loc, boolType, Predicate::Gt, count, zero);
  Value mean = DivOp::create(builder, loc, type, total, count);
  makeWrite(builder, loc, loss, SelectOp::create(builder, loc, type, counted, mean, zero));
}
