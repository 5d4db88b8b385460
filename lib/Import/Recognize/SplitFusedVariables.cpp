// Splits weights whose matmul result is only used in slices: fused q, k, v; fused gate and up.
#include "lib/Import/Recognize/Matching.h"
#include "parashard/Import.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace parashard::import {
namespace recognize {
namespace {

/// A fused matmul x w (+ bias), and the slices that together cover the last dim of its result.
struct Fused {
  ps::ContractOp contract;
  bool weightIsRhs = true;
  ps::ReadOp weight, bias;
  unsigned weightDim = 0; ///< dim along which the weight is split
  ps::AddOp add;
  SmallVector<ps::SliceOp> slices; ///< sorted by start
  SmallVector<std::pair<int64_t, int64_t>> ranges;
};

/// The variables of a module, and the number of uses of each. Computed once, since splitting a
/// variable does not change other variables and their uses.
class Variables {
public:
  explicit Variables(ModuleOp module) : symbols(module) {
    if (auto uses = SymbolTable::getSymbolUses(&module.getBodyRegion()))
      for (SymbolTable::SymbolUse use : *uses)
        ++useCounts[use.getSymbolRef().getRootReference()];
  }

  unsigned countUses(ps::ReadOp read) const {
    return useCounts.lookup(read.getVariableAttr().getAttr());
  }

  /// Returns the variable of `read` if the variable can be split, else null. `read` must have a
  /// single use. The initial value must be a whole tensor in a file.
  ps::VariableOp getSplittable(ps::ReadOp read) const {
    auto symbol = read ? read.getVariableAttr() : FlatSymbolRefAttr();
    auto variable = symbol ? symbols.lookup<ps::VariableOp>(symbol.getAttr()) : ps::VariableOp();
    auto file =
        variable ? dyn_cast_if_present<ps::FileAttr>(variable.getInitAttr()) : ps::FileAttr();
    bool splittable = file && file.getLower().empty() && read->hasOneUse();
    return splittable ? variable : ps::VariableOp();
  }

  void erase(ps::VariableOp variable) { symbols.erase(variable); }

private:
  SymbolTable symbols;
  DenseMap<StringAttr, unsigned> useCounts;
};

/// Collects the users of `matmul`. Returns false unless all users are slices along the last dim,
/// and their two or more ranges cover this dim without gaps or overlaps.
bool findSlices(Value matmul, Fused &fused) {
  int64_t last = getType(matmul).getRank() - 1, size = getShape(matmul)[last];
  for (Operation *user : matmul.getUsers()) {
    auto slice = dyn_cast<ps::SliceOp>(user);
    if (!slice)
      return false;
    for (int64_t dim = 0; dim <= last; ++dim)
      if (slice.getStrides()[dim] != 1 ||
          (dim < last && getShape(slice.getResult())[dim] != getShape(matmul)[dim]))
        return false;
    fused.slices.push_back(slice);
  }
  auto start = [&](ps::SliceOp slice) { return slice.getStarts()[last]; };
  llvm::sort(fused.slices, [&](ps::SliceOp a, ps::SliceOp b) { return start(a) < start(b); });
  int64_t at = 0;
  for (ps::SliceOp slice : fused.slices) {
    int64_t low = start(slice), high = slice.getLimits()[last];
    if (!fused.ranges.empty() && fused.ranges.back() == std::pair(low, high))
      continue; // two slices of the same range
    if (low != at)
      return false;
    fused.ranges.push_back({low, high});
    at = high;
  }
  return at == size && fused.ranges.size() > 1;
}

/// Returns the read of the bias in y + broadcast(bias), or null for other sums.
ps::ReadOp getBias(ps::AddOp add, Value y) {
  Value other = add.getLhs() == y ? add.getRhs() : add.getLhs();
  auto broadcast = other.getDefiningOp<ps::BroadcastOp>();
  if (!broadcast || broadcast.getDims() != ArrayRef<int64_t>(getType(y).getRank() - 1) ||
      !broadcast->hasOneUse())
    return {};
  return broadcast.getOperand().getDefiningOp<ps::ReadOp>();
}

bool match(ps::ContractOp contract, const Variables &variables, Fused &fused) {
  fused.contract = contract;
  fused.weight = contract.getRhs().getDefiningOp<ps::ReadOp>();
  if (!fused.weight) {
    fused.weightIsRhs = false;
    fused.weight = contract.getLhs().getDefiningOp<ps::ReadOp>();
  }
  if (!variables.getSplittable(fused.weight) || contract.getResultLabels().empty())
    return false;
  ArrayRef<int64_t> labels = fused.weightIsRhs ? contract.getRhsLabels() : contract.getLhsLabels();
  auto at = llvm::find(labels, contract.getResultLabels().back());
  if (at == labels.end() || labels.size() != 2)
    return false;
  fused.weightDim = at - labels.begin();
  Value matmul = contract.getResult();
  if (matmul.hasOneUse())
    if (auto add = dyn_cast<ps::AddOp>(*matmul.user_begin())) {
      fused.bias = getBias(add, matmul);
      if (!fused.bias || !variables.getSplittable(fused.bias))
        return false;
      fused.add = add;
      matmul = add.getResult();
    }
  return findSlices(matmul, fused);
}

/// Creates a variable for the part `range` = [low, high) of `variable` along `dim`. The part has
/// the number `part`.
ps::VariableOp makePart(OpBuilder &b, ps::VariableOp variable, unsigned part, unsigned dim,
                        std::pair<int64_t, int64_t> range) {
  RankedTensorType whole = variable.getTensorType();
  SmallVector<int64_t> lower(whole.getRank(), 0), upper(whole.getShape()), shape(whole.getShape());
  lower[dim] = range.first, upper[dim] = range.second, shape[dim] = range.second - range.first;
  auto file = cast<ps::FileAttr>(variable.getInitAttr());
  auto init = ps::FileAttr::get(b.getContext(), file.getLocation(), whole.getShape(), lower, upper);
  std::string symbol = llvm::formatv("{0}.part{1}", variable.getSymName(), part);
  auto op =
      ps::VariableOp::create(b, variable.getLoc(), variable.getKind(), symbol,
                             variable.getNamesAttr(), variable.getOfAttr(), init,
                             variable.getFrozen(), variable.getTransient(), whole.clone(shape));
  return op;
}

SmallVector<ps::VariableOp> makeParts(ps::VariableOp variable, unsigned dim,
                                      ArrayRef<std::pair<int64_t, int64_t>> ranges) {
  OpBuilder b(variable);
  SmallVector<ps::VariableOp> parts;
  for (auto [i, range] : llvm::enumerate(ranges))
    parts.push_back(makePart(b, variable, i, dim, range));
  return parts;
}

Value readPart(OpBuilder &b, Location loc, ps::VariableOp part) {
  return ps::ReadOp::create(b, loc, part.getTensorType(),
                            FlatSymbolRefAttr::get(part.getSymNameAttr()), Value());
}

/// The matmuls of one fused weight: one in `@forward`, and one in each inference entry that uses
/// the weight.
using Group = SmallVector<Fused, 1>;

/// Returns true if the matmuls of a group use the same slices and the same bias, and if the weight
/// and the bias have no other uses.
bool isSplittable(const Group &group, const Variables &variables) {
  llvm::SmallPtrSet<Operation *, 4> functions;
  Fused first = group.front();
  auto getBias = [](Fused f) { return f.bias ? f.bias.getVariableAttr() : FlatSymbolRefAttr(); };
  for (const Fused &f : group)
    if (!functions.insert(f.contract->getParentOp()).second || f.weightDim != first.weightDim ||
        f.ranges != first.ranges || getBias(f) != getBias(first))
      return false;
  return variables.countUses(first.weight) == group.size() &&
         (!first.bias || variables.countUses(first.bias) == group.size());
}

/// Replaces a fused matmul by one matmul per part.
void rewrite(Fused &f, ArrayRef<ps::VariableOp> weights, ArrayRef<ps::VariableOp> biases) {
  OpBuilder b(f.add ? f.add.getOperation() : f.contract.getOperation());
  Location loc = f.contract.getLoc();
  int64_t last = getType(f.contract.getResult()).getRank() - 1;
  for (auto [i, range] : llvm::enumerate(f.ranges)) {
    Value part = readPart(b, f.weight.getLoc(), weights[i]);
    Value lhs = f.weightIsRhs ? f.contract.getLhs() : part,
          rhs = f.weightIsRhs ? part : f.contract.getRhs();
    Value y = ps::ContractOp::create(b, loc, lhs, f.contract.getLhsLabels(), rhs,
                                     f.contract.getRhsLabels(), f.contract.getResultLabels())
                  .getResult();
    if (f.bias)
      y = ps::AddOp::create(b, f.add.getLoc(), y,
                            ps::BroadcastOp::create(b, f.add.getLoc(), getType(y),
                                                    readPart(b, f.bias.getLoc(), biases[i]),
                                                    ArrayRef<int64_t>(last)));
    for (ps::SliceOp slice : f.slices)
      if (slice.getStarts()[last] == range.first)
        slice.getResult().replaceAllUsesWith(y);
  }
  for (ps::SliceOp slice : f.slices)
    eraseDead(slice);
}

void split(Group &group, Variables &variables) {
  Fused first = group.front();
  ps::VariableOp weight = variables.getSplittable(first.weight);
  ps::VariableOp bias = first.bias ? variables.getSplittable(first.bias) : ps::VariableOp();
  SmallVector<ps::VariableOp> weights = makeParts(weight, first.weightDim, first.ranges), biases;
  if (bias)
    biases = makeParts(bias, 0, first.ranges);
  for (Fused &fused : group)
    rewrite(fused, weights, biases);
  variables.erase(weight);
  if (bias)
    variables.erase(bias);
}

} // namespace
} // namespace recognize

int64_t splitFusedVariables(ModuleOp module) {
  llvm::MapVector<Attribute, recognize::Group> groups; ///< by the symbol of the weight
  recognize::Variables variables(module);
  module.walk([&](ps::ContractOp contract) {
    recognize::Fused fused;
    if (recognize::match(contract, variables, fused))
      groups[fused.weight.getVariableAttr()].push_back(std::move(fused));
  });
  int64_t count = 0;
  for (auto &[symbol, group] : groups)
    if (recognize::isSplittable(group, variables)) {
      recognize::split(group, variables);
      ++count;
    }
  return count;
}

} // namespace parashard::import
