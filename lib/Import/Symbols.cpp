// Keeps the model's names apart from those of functions and of what training adds.
#include "lib/Import/Symbols.h"
#include "llvm/ADT/STLExtras.h"

namespace parashard::import {

std::string chooseSymbol(llvm::StringRef name) {
  static constexpr llvm::StringLiteral kOurs[] = {
      "mesh", "forward", "micro_batch", "evaluate",   "update", "count",
      "loss", "lr",      "grad_norm",   "loss_scale", "fp8"};
  llvm::StringRef root = name.split('.').first; // "loss.sum" is ours too
  return (llvm::is_contained(kOurs, root) || root == "optimizer" ? "self." : "") + name.str();
}

} // namespace parashard::import
