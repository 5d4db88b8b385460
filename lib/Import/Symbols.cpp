// Renames variables of the model whose names the compiler uses for functions or its own variables.
#include "lib/Import/Symbols.h"
#include "parashard/Import.h"
#include "llvm/ADT/STLExtras.h"

namespace parashard::import {

std::string chooseSymbol(llvm::StringRef name) {
  static constexpr llvm::StringLiteral kReserved[] = {
      "mesh",  "forward", "micro_batch",  "evaluate",      "update", "count",
      "loss",  "lr",      "grad_norm",    "loss_scale",    "fp8",    "momentum",
      "beta1", "beta2",   "weight_decay", "clip_grad_norm"};
  llvm::StringRef root = name.split('.').first; // "loss.sum" is reserved as well
  return (llvm::is_contained(kReserved, root) || root == "optimizer" ? "self." : "") + name.str();
}

bool isReservedEntry(llvm::StringRef name) {
  return name == "step" || name == "backward" || name == "inference" || chooseSymbol(name) != name;
}

} // namespace parashard::import
