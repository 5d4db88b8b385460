// The text of an optimizer: which parameters, which rule, which numbers.
#ifndef PARASHARD_LIB_TRAINING_OPTIMIZERSPEC_H
#define PARASHARD_LIB_TRAINING_OPTIMIZERSPEC_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace parashard {

/// One group: `[GLOB=|ndim<2=]NAME(key=value,...)`, numbers as in torch.optim.
struct OptimizerSpec {
  enum class Rule { SGD, Adam, AdamW };

  std::string text; ///< as given, for messages
  std::string glob; ///< empty: any name
  /// ndim OP N, OP one of < <= > >= ==; empty OP: any.
  std::string rankPredicate;
  int64_t rank = 0;

  Rule rule = Rule::SGD;
  double lr = 1e-3;
  double weightDecay = 0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0, dampening = 0;
  bool nesterov = false;

  /// Whether a parameter of `rank` dims passes the predicate (names are matched elsewhere).
  bool acceptsRank(int64_t rank) const;
};

/// Parses one spec; the error says the column (from 1) and what is expected there.
llvm::Expected<OptimizerSpec> parseOptimizerSpec(llvm::StringRef text);

} // namespace parashard

#endif
