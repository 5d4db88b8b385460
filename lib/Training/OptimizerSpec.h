// Parses the text of an optimizer: its parameters, its rule and its hyperparameters.
#ifndef PARASHARD_LIB_TRAINING_OPTIMIZERSPEC_H
#define PARASHARD_LIB_TRAINING_OPTIMIZERSPEC_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace parashard::training {

/// One group: `[GLOB=|ndim<2=]NAME(key=value,...)`, with the keys of torch.optim.
struct OptimizerSpec {
  enum class Rule { SGD, Adam, AdamW };

  std::string text; ///< as the user wrote it, for messages
  std::string glob; ///< pattern of parameter names; empty: any name
  /// Comparison of the rank: one of < <= > >= ==; empty: any rank. Example: "<" and 2 for `ndim<2`.
  std::string rankPredicate;
  int64_t rank = 0;

  Rule rule = Rule::SGD;
  double lr = 1e-3;
  double weightDecay = 0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0, dampening = 0;
  bool nesterov = false;

  /// Returns true if a parameter of `rank` dims passes the comparison. Ignores the name pattern.
  bool acceptsRank(int64_t rank) const;
};

/// Parses one spec. An error reports the column (from 1) and the text expected there.
llvm::Expected<OptimizerSpec> parseOptimizerSpec(llvm::StringRef text);

} // namespace parashard::training

#endif
