// Creates and looks up variables, phases and ops.
#include "Symbols.h"
#include "dialects/ps/Refusal.h"

using namespace mlir;

namespace parashard::ir {

llvm::SmallVector<std::string> splitList(llvm::StringRef text) {
  llvm::SmallVector<std::string> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != ';') {
      depth += (text[i] == '(') - (text[i] == ')');
      continue;
    }
    if (i < text.size() && depth > 0)
      continue;
    if (llvm::StringRef part = text.slice(begin, i).trim(); !part.empty())
      parts.push_back(part.str());
    begin = i + 1;
  }
  return parts;
}

VariableTable::VariableTable(ModuleOp module) : module(module), symbols(module) {
  for (auto variable : module.getOps<ps::VariableOp>())
    last = variable;
}

FailureOr<ps::VariableOp> VariableTable::add(ps::VariableKind kind, llvm::StringRef symbol,
                                             RankedTensorType type, ps::VariableOp of,
                                             Attribute init) {
  if (Operation *taken = symbols.lookup(symbol)) {
    auto error = ps::refuse(module)
                 << "the compiler adds a variable @" << symbol
                 << ", but the model already defines @" << symbol << "; rename it in the model";
    error.attachNote(taken->getLoc()) << "defined here";
    return failure();
  }
  OpBuilder builder(module.getContext());
  auto owner = of ? FlatSymbolRefAttr::get(of.getSymNameAttr()) : FlatSymbolRefAttr();
  auto variable = ps::VariableOp::create(builder, of ? of.getLoc() : module.getLoc(),
                                         ps::VariableKindAttr::get(module.getContext(), kind),
                                         builder.getStringAttr(symbol),
                                         /*names=*/ArrayAttr(), owner, init, /*frozen=*/UnitAttr(),
                                         /*transient=*/UnitAttr(), TypeAttr::get(type));
  symbols.insert(variable, last ? std::next(last->getIterator()) : module.getBody()->begin());
  last = variable;
  return variable;
}

void setPhase(Operation *op, ps::Phase phase) {
  op->setAttr(kPhaseMark, ps::PhaseAttr::get(op->getContext(), phase));
}

std::optional<ps::Phase> getPhase(Operation *op) {
  auto phase = op->getAttrOfType<ps::PhaseAttr>(kPhaseMark);
  return phase ? std::optional(phase.getValue()) : std::nullopt;
}

static FlatSymbolRefAttr refTo(ps::VariableOp variable) {
  return FlatSymbolRefAttr::get(variable.getSymNameAttr());
}

Value makeRead(OpBuilder &builder, Location loc, ps::VariableOp variable) {
  return ps::ReadOp::create(builder, loc, variable.getTensorType(), refTo(variable), Value());
}

void makeWrite(OpBuilder &builder, Location loc, ps::VariableOp variable, Value value,
               Value condition) {
  ps::WriteOp::create(builder, loc, refTo(variable), Value(), value, condition);
}

ps::AccumulateOp makeAccumulate(OpBuilder &builder, Location loc, ps::VariableOp variable,
                                Value value, ps::ReductionKind kind) {
  return ps::AccumulateOp::create(builder, loc, refTo(variable), Value(), value, kind);
}

Value makeConstant(OpBuilder &builder, Location loc, RankedTensorType type, double value) {
  return ps::ConstantOp::create(builder, loc, type, value);
}

Value makeConvert(OpBuilder &builder, Location loc, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return ps::ConvertOp::create(builder, loc, RankedTensorType::get(type.getShape(), element),
                               value);
}

void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace parashard::ir
