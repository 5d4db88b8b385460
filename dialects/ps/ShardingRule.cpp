// Prints sharding rules, and creates the rule of elementwise ops.
#include "dialects/ps/ShardingRule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace parashard::ps {

ShardingRule ShardingRule::elementwise(llvm::ArrayRef<int64_t> shape, unsigned numOperands,
                                       unsigned numResults) {
  ShardingRule rule;
  TensorFactors tensor;
  for (int64_t size : shape)
    tensor.push_back({rule.addFactor(size)});
  rule.operands.assign(numOperands, tensor);
  rule.results.assign(numResults, tensor);
  return rule;
}

/// Returns the name of a factor: i, j, ..., z, a, ..., h, then f26, f27, ...
static std::string getFactorName(unsigned factor) {
  if (factor < 18)
    return std::string(1, char('i' + factor));
  if (factor < 26)
    return std::string(1, char('a' + factor - 18));
  return "f" + std::to_string(factor);
}

static void printTensors(llvm::raw_ostream &os, llvm::ArrayRef<TensorFactors> tensors) {
  os << "(";
  llvm::interleaveComma(tensors, os, [&](const TensorFactors &tensor) {
    os << "[";
    llvm::interleaveComma(tensor, os, [&](const DimFactors &dim) {
      if (dim.empty())
        os << "1";
      llvm::interleave(dim, os, [&](unsigned factor) { os << getFactorName(factor); }, " x ");
    });
    os << "]";
  });
  os << ")";
}

void ShardingRule::print(llvm::raw_ostream &os) const {
  printTensors(os, operands);
  os << " -> ";
  printTensors(os, results);
  for (auto [i, factor] : llvm::enumerate(factors)) {
    os << ", " << getFactorName(i) << " = " << factor.size;
    if (factor.kind == RuleFactor::Kind::Reduction)
      os << " reduction(" << stringifyReductionKind(factor.reduction) << ")";
    if (factor.kind == RuleFactor::Kind::Whole)
      os << " whole(\"" << factor.reason << "\")";
  }
}

} // namespace parashard::ps
