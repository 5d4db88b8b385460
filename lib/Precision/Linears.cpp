// Finds the linear layers to compute in fp8, and reports layers whose dims are not multiples of 16.
#include "Linears.h"
#include "TypeAssigner.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/Symbols.h"
#include <array>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::precision {

VariableOp getReadVariable(Value value) {
  auto read = dyn_cast_or_null<ReadOp>(skipViews(value));
  return read ? SymbolTable::lookupNearestSymbolFrom<VariableOp>(read, read.getVariableAttr())
              : VariableOp();
}

namespace {
/// On GPUs, fp8 matmuls need dims that are multiples of this number.
constexpr int64_t kMultiple = 16;

bool isWeight(VariableOp variable) {
  return variable && (variable.getKind() == VariableKind::Copy ||
                      variable.getKind() == VariableKind::Parameter);
}

/// Returns the sizes {m, n, k} of the matmul [m, k] x [k, n]. Omits batch dims (such as experts),
/// because each matmul of the batch must have aligned dims. Example: [8, 32, 64] x [8, 64, 128],
/// batched over 8, gives {32, 128, 64}.
std::array<int64_t, 3> getSizes(ContractOp op) {
  std::array<int64_t, 3> sizes{1, 1, 1};
  llvm::ArrayRef<int64_t> right = op.getRhsLabels(), result = op.getResultLabels();
  for (auto [label, size] : llvm::zip(op.getLhsLabels(), op.getLhs().getType().getShape()))
    if (!llvm::is_contained(result, label))
      sizes[2] *= size;
    else if (!llvm::is_contained(right, label))
      sizes[0] *= size;
  for (auto [label, size] : llvm::zip(right, op.getRhs().getType().getShape()))
    if (!llvm::is_contained(op.getLhsLabels(), label))
      sizes[1] *= size;
  return sizes;
}
} // namespace

std::optional<Linear> LinearFinder::match(Operation *op) const {
  auto contract = dyn_cast<ContractOp>(op);
  std::optional<Phase> phase = getPhase(op);
  if (!contract || (phase != Phase::Forward && phase != Phase::Evaluate))
    return std::nullopt;
  bool isNarrow = getElementTypeOrSelf(contract.getLhs().getType()).isBF16();
  VariableOp left = getReadVariable(contract.getLhs()), right = getReadVariable(contract.getRhs());
  if (!isNarrow || isWeight(left) == isWeight(right))
    return std::nullopt;
  if (matchesAny(op, options.exclude) ||
      (!options.include.empty() && !matchesAny(op, options.include)))
    return std::nullopt;
  Linear linear;
  linear.op = contract;
  linear.weightIsLeft = isWeight(left);
  linear.input = linear.weightIsLeft ? contract.getRhs() : contract.getLhs();
  linear.weight = linear.weightIsLeft ? contract.getLhs() : contract.getRhs();
  VariableOp weight = linear.weightIsLeft ? left : right;
  FlatSymbolRefAttr of = weight.getOfAttr();
  linear.name = (of ? of.getValue() : weight.getSymName()).str();
  return linear;
}

bool LinearFinder::fits(const Linear &linear, bool isReported) {
  std::array<int64_t, 3> sizes = getSizes(linear.op);
  if (llvm::all_of(sizes, [](int64_t size) { return size % kMultiple == 0; }))
    return true;
  if (!isReported)
    return false;
  std::string text;
  llvm::raw_string_ostream(text) << linear.name << ": " << sizes[0] << " x " << sizes[2] << " by "
                                 << sizes[2] << " x " << sizes[1];
  misfits.push_back({linear.op, text});
  return false;
}

LogicalResult LinearFinder::reportMisfits() {
  constexpr size_t kMaxNotes = 20;
  if (misfits.empty())
    return success();
  bool fails = options.failsOnMisfit;
  InFlightDiagnostic report =
      fails ? refuseFlag(module, "precision fp8") : warnFlag(module, "precision fp8");
  report << " needs dims that are multiples of " << kMultiple << "; " << misfits.size()
         << (misfits.size() == 1 ? " linear layer has" : " linear layers have") << " other dims"
         << (fails ? "; pad the dims, or keep the layers in bf16 with exclude=GLOB or misfit=bf16"
             : misfits.size() == 1 ? " and stays in bf16"
                                   : " and stay in bf16");
  for (auto &[op, text] : llvm::ArrayRef(misfits).take_front(kMaxNotes))
    report.attachNote(op->getLoc()) << text;
  if (misfits.size() > kMaxNotes)
    report.attachNote() << "and " << misfits.size() - kMaxNotes << " more";
  return failure(fails);
}

} // namespace parashard::precision
